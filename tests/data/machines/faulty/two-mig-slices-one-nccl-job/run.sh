#!/bin/bash
export CUDA_VISIBLE_DEVICES=MIG-0cc175b9-c0f1-b6a8-31c3-99e269772661,MIG-92eb5ffe-e6ae-2fec-3ad7-1c777531578f
export NCCL_DEBUG=INFO
torchrun --standalone --nproc-per-node=2 train.py --backend nccl --batch-size 16
