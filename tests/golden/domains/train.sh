#!/bin/bash
# 16 servers of four devices, which are one NVLink domain.
torchrun --nnodes 16 --nproc-per-node 4 pretrain_gpt.py \
    --num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 \
    --vocab-size 32000 --tensor-model-parallel-size 16 --sequence-parallel --bf16 --use-distributed-optimizer \
    --micro-batch-size 1 --global-batch-size 8 --train-iters 10
