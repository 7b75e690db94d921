#!/bin/bash
NCCL_SOCKET_IFNAME=ib0 NCCL_DEBUG=INFO torchrun --nnodes 2 --node_rank 0 --nproc_per_node 4 --master_addr 10.10.7.107 --master_port 29500 train.py
