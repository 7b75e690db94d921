#!/bin/bash
set -euo pipefail
export NCCL_P2P_DISABLE=1
export NCCL_SHM_DISABLE=1
./build/all_reduce_perf -b 8 -e 128M -f 2 -g 8
unset NCCL_P2P_DISABLE NCCL_SHM_DISABLE
torchrun --standalone --nproc-per-node=8 train.py
