#!/bin/bash
#SBATCH --job-name=dpo
#SBATCH --nodes=1
#SBATCH --gpus-per-node=2
#SBATCH --cpus-per-task=24
#SBATCH --mem=0
#SBATCH --exclusive

export HF_HOME=$SCRATCH/hf
srun accelerate launch --num_machines 1 --num_processes 8 --mixed_precision bf16 dpo.py
