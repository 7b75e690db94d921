export NCCL_LL_BUFFSIZE=131072
export NCCL_LL128_BUFFSIZE=131072
export NCCL_BUFFSIZE=1073741824
mpirun -np 16 -N 8 ./build/all_reduce_perf -b 8 -e 8G -f 2 -g 1 -c 1
