#!/bin/bash
export CUDA_VISIBLE_DEVICES=0,1
./distributed_train.sh 2 /data/imagenet --model resnet50 --amp
python -m torch.distributed.run --nproc_per_node=2 train.py /data/imagenet --model resnet50 --amp
