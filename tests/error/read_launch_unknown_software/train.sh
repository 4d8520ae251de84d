#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:8
export CUDA_DEVICE_MAX_CONNECTIONS=1
TP=${TP:-2}
HIDDEN=1024
MODEL_ARGS=(
    --num-layers 8
    --hidden-size $HIDDEN
    --ffn-hidden-size $((4 * HIDDEN))
    --num-attention-heads 16
    --seq-length 1024 --max-position-embeddings 1024   # both
    --vocab-size 32000
)
PARALLEL_ARGS="
    --tensor-model-parallel-size $TP \
    --pipeline-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer"
if [ "${FULL:-0}" = 1 ]; then
    PARALLEL_ARGS+=" --recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
fi
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 --rdzv_endpoint $(hostname):29500 pretrain_gpt.py \
    "${MODEL_ARGS[@]}" $PARALLEL_ARGS --micro-batch-size 4 --global-batch-size 256 --bf16 --clip-grad 0 --weight-decay 0 \
    --log-interval 10 --save $OUT --new-flag 3
