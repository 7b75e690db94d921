#!/bin/bash
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
CUDA_VISIBLE_DEVICES=0 python train.py --ckpt_dir ckpt/run1 --epochs 150
