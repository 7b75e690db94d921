CUDA_VISIBLE_DEVICES=3 python pretrain.py --seed 1 > a.log 2>&1 &
CUDA_VISIBLE_DEVICES=5 python pretrain.py --seed 2 > b.log 2>&1 &
wait
