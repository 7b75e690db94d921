#!/bin/bash
CUDA_VISIBLE_DEVICES=2 python main.py --epochs 10 --batch-size 64
