sNPROC_PER_NODE=8 megatron sft --model llama-3.1-8b --tensor_model_parallel_size 4 --sequence_parallel true --max_length 4096 --micro_batch_size 2 --global_batch_size 16 --packing true
