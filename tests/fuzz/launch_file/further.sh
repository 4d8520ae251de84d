s#!/bin/bash
L="Et*5|t*3|m*2|L"
srun torchrun --nnodes 1 --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 256 --vocab-size 1024 --multi-latent-attention --kv-lora-rank 64 --num-experts 8 --moe-router-topk 2 --mtp-num-layers 2 --mtp-loss-scaling-factor 0.2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "$L" --micro-batch-size 1 --global-batch-size 8
