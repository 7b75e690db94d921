#!/bin/bash
# reduce fragmentation
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
export NCCL_ALGO=Tree
export NCCL_NSOCKS_PERTHREAD=4
export NCCL_BUFFSIZE=65536
# talk over NVLink
export NCCL_SOCKET_IFNAME=nvlink0
export NCCL_IB_HCA=mlx5_0
export NCCL_DEBUG=WARN
torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=$HEAD:29500 train.py
