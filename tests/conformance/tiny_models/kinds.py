# SPDX-License-Identifier: Apache-2.0
"""Sizes of the tiny models and of what they train on, and which families are alike in what they take and keep."""
BATCH, SEQ, VOCAB, STEPS, RATE = 4, 8, 64, 5, 1e-3
MIXTURES = {"mixtral", "qwen3_moe", "gpt_oss", "deepseek_v3", "glm4_moe", "minimax_m2", "qwen3_next", "deepseek_v32", "qwen2_moe",
            "olmoe", "flex_olmo", "exaone_moe", "dots1", "hy_v3", "solar_open", "glm4_moe_lite", "llama4_text", "gemma4_moe", "granitemoe",
            "granitemoeshared", "ernie4_5_moe", "hunyuan_v1_moe", "deepseek_v2", "qwen3_5_moe_text", "glm_moe_dsa", "granitemoehybrid",
            "qwen3_vl_moe", "bailing_moe", "bailing_moe_v2", "jamba", "lfm2_moe", "dbrx", "glm_moe_dsa_shared", "nemotron_h_latent", "mimo_v2_flash",
            "deepseek_v4", "kimi_linear", "minimax_m3_vl_text", "mistral4", "axk1", "afmoe", "cohere2_moe", "cohere2_moe_sums", "granitemoe_swa",
            "aria_text", "step3p7", "laguna", "laguna_wide", "minimax", "longcat_flash", "jetmoe", "flint", "axk2", "bailing_hybrid", "hy_v4",
            "lara_mini"}
# Encoders with decoders.
PAIRS = {"t5gemma", "fsmt", "longt5", "switch_transformers", "t5", "mt5", "umt5", "bart", "mbart", "pegasus", "blenderbot", "blenderbot-small",
         "m2m_100", "plbart", "mvp", "led"}
IMAGES = {"vit", "deit", "dinov2", "dinov2_gated", "dinov2_with_registers", "wide_resnet", "convnext", "convnextv2", "swin", "donut-swin",
          "beit", "beit_apart", "data2vec-vision", "ijepa", "segformer"}
SHIFTED = {"swin", "donut-swin"}  # of 64 pixels a side
TOWERS = {"siglip", "siglip2"}
WIDE_IMAGES = {"wide_resnet", "convnext", "convnextv2", "segformer"}  # of 32 pixels a side
ENCODERS = {"roberta", "distilbert", "modernbert", "modernbert_biases", "eurobert", "data2vec-text", "roberta-prelayernorm",
            "xlm-roberta-xl", "mpnet", "esm", "jina_embeddings_v3", "gte", "longformer", "ibert", "flaubert", "flaubert_norm_first", "deberta-v2",
            "deberta-v2_apart", "deberta-v2_plain"}  # that predict the words of labels of their own
ONE_TYPE = {"roberta", "data2vec-text", "roberta-prelayernorm", "xlm-roberta-xl", "jina_embeddings_v3", "gte", "longformer", "ibert"}
# That are given a type of each token.
TYPED = {"bert", "big_bird", "electra", "albert", "megatron-bert", "ernie", "nomic_bert", "roformer", "rembert", "layoutlm", "xlm", "deberta",
         "mobilebert", "mobilebert_gelu", "fnet"}
# What is saved beside the parameters.
UNTRAINED = ("e_score_correction_bias", "tid2eid", "layer_scalar", "feed_forward.expert_bias", "mlp.expert_bias", "embeddings.mask_token",
             "_global.weight", "_global.bias")
DERIVED = ("relative_position_index", "slope_rate", "query_decay", "key_decay", "diagonal_decay")  # what files have of no parameter
BESIDE_TEXT = {"step3p7": ("vision_model.", "vit_large_projector."), "git": ("git.image_encoder.", "git.visual_projection.")}
FURTHER = {"mimo"}  # with a module that predicts the token behind the next
SCANS = "M-*-"  # the layers of nemotron_h
