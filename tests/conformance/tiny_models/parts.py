# SPDX-License-Identifier: Apache-2.0
"""What configurations of several tiny models have in common."""
from tiny_models.kinds import SEQ, VOCAB


def decoder(**more):
    return dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=SEQ, tie_word_embeddings=False, **more)


delta = dict(head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=8,
             full_attention_interval=2)
small = dict(vocab_size=VOCAB, num_hidden_layers=2, num_attention_heads=4, hidden_size=32)
gemma4 = dict(layer_types=["sliding_attention", "full_attention"] * 2, sliding_window=4, global_head_dim=16, final_logit_softcapping=5.0,
              num_hidden_layers=4, tie_word_embeddings=True, vocab_size_per_layer_input=VOCAB)
modern = dict(**small, intermediate_size=48, max_position_embeddings=SEQ, local_attention=4, pad_token_id=0, bos_token_id=1, eos_token_id=2,
              cls_token_id=1, sep_token_id=2)
pairs = dict(mamba_n_heads=4, mamba_d_head=16, mamba_d_state=4, mamba_n_groups=1, mamba_chunk_size=8)
masked = dict(**small, intermediate_size=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
granite_4 = dict(**pairs, layer_types=["mamba", "attention"], embedding_multiplier=2.0, residual_multiplier=0.5, logits_scaling=4.0,
                 attention_multiplier=0.25, shared_intermediate_size=24)
latent = dict(q_lora_rank=16, kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8)
yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
