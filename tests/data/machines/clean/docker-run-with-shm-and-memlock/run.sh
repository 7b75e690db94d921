#!/bin/bash
docker run --gpus all --rm --network host --shm-size=16g --ulimit memlock=-1 --ulimit stack=67108864 \
  -e NCCL_DEBUG=INFO -v $PWD:/work nvcr.io/nvidia/pytorch:24.05-py3 torchrun --standalone --nproc-per-node=8 /work/train.py
