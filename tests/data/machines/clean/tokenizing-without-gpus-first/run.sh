#!/bin/bash
set -e
CUDA_VISIBLE_DEVICES= python prepare.py --workers 64 --out data/
torchrun --standalone --nproc-per-node=4 train.py --data data/
