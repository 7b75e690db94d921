#!/usr/bin/env bash
set -e
export CUDA_VISIBLE_DEVICES=1,2
accelerate launch --num_processes 2 --mixed_precision bf16 train.py
