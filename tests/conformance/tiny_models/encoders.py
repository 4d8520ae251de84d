# SPDX-License-Identifier: Apache-2.0
"""Encoders, encoders with decoders, and models of images: a class of transformers and the configuration of a tiny one each."""
import transformers

from tiny_models.kinds import SEQ, VOCAB
from tiny_models.parts import decoder, masked, modern, small


def gemma_module(layers):
    return {**decoder(head_dim=8, sliding_window=4, query_pre_attn_scalar=8, attn_logit_softcapping=0.5, final_logit_softcapping=2.0),
            "num_hidden_layers": layers, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"][:layers],
            "tie_word_embeddings": True}


def encoders():
    t = transformers
    narrow = dict(embedding_size=16, intermediate_size=64, max_position_embeddings=SEQ, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    pair = dict(vocab_size=VOCAB, d_model=32, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
                encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=SEQ, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)
    patches = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=8, patch_size=4, num_labels=10)
    stages = dict(hidden_sizes=[4, 8, 8, 16], depths=[1, 2, 1, 1], image_size=32, num_labels=10)
    lingual = dict(vocab_size=VOCAB, emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=SEQ, dropout=0.0, attention_dropout=0.0)
    bottleneck = dict(max_position_embeddings=SEQ, embedding_size=8, intra_bottleneck_size=16, num_feedforward_networks=3)
    return {
        "bert": (t.BertForMaskedLM, t.BertConfig(**small, intermediate_size=64, max_position_embeddings=SEQ, hidden_dropout_prob=0.0,
                                                 attention_probs_dropout_prob=0.0)),
        "t5": (t.T5ForConditionalGeneration, t.T5Config(vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=2,
                                                        num_heads=4, feed_forward_proj="relu", dropout_rate=0.0, n_positions=SEQ,
                                                        tie_word_embeddings=True)),
        # Windows of two keys on either side.
        "longt5": (t.LongT5ForConditionalGeneration, t.LongT5Config(vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                                                                    dropout_rate=0.0, local_radius=2)),
        # Experts have room for three of a sample's tokens.
        "switch_transformers": (t.SwitchTransformersForConditionalGeneration, t.SwitchTransformersConfig(
            vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=4, num_decoder_layers=2, num_heads=4, dropout_rate=0.0, expert_capacity=3,
            num_sparse_encoder_layers=2, num_sparse_decoder_layers=1, num_experts=4, router_jitter_noise=0.0, router_bias=True,
            router_z_loss_coef=0.0, router_aux_loss_coef=0.0)),
        "vit": (t.ViTForImageClassification, t.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                                                         image_size=8, patch_size=4, num_labels=10, hidden_dropout_prob=0.0,
                                                         attention_probs_dropout_prob=0.0)),
        # Windows of four keys back; of the encoder of four on either side.
        "t5gemma": (t.T5GemmaForConditionalGeneration, t.T5GemmaConfig(
            encoder=t.T5GemmaModuleConfig(**gemma_module(3)), decoder=t.T5GemmaModuleConfig(**gemma_module(2)), vocab_size=VOCAB)),
        "big_bird": (t.BigBirdForMaskedLM, t.BigBirdConfig(**masked, max_position_embeddings=SEQ, attention_type="original_full")),
        "fsmt": (t.FSMTForConditionalGeneration, t.FSMTConfig(
            src_vocab_size=VOCAB + 8, tgt_vocab_size=VOCAB, d_model=32, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=64, max_position_embeddings=SEQ, dropout=0.0)),
        "roberta": (t.RobertaForMaskedLM, t.RobertaConfig(**small, intermediate_size=64, max_position_embeddings=SEQ + 2, type_vocab_size=1,
                                                         hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)),
        "distilbert": (t.DistilBertForMaskedLM, t.DistilBertConfig(vocab_size=VOCAB, dim=32, n_layers=2, n_heads=4, hidden_dim=64,
                                                                  max_position_embeddings=SEQ, dropout=0.0, attention_dropout=0.0)),
        "electra": (t.ElectraForMaskedLM, t.ElectraConfig(**small, **narrow)),
        "albert": (t.AlbertForMaskedLM, t.AlbertConfig(**{**small, "num_hidden_layers": 4}, **narrow, num_hidden_groups=2)),
        "modernbert": (t.ModernBertForMaskedLM, t.ModernBertConfig(**{**modern, "num_hidden_layers": 4})),
        "modernbert_biases": (t.ModernBertForMaskedLM, t.ModernBertConfig(**modern, attention_bias=True, mlp_bias=True, norm_bias=True,
                                                                          classifier_bias=True)),
        "eurobert": (t.EuroBertForMaskedLM, t.EuroBertConfig(**decoder(mlp_bias=True, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                                                       mask_token_id=2))),
        "mt5": (t.MT5ForConditionalGeneration, t.MT5Config(vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                                                           dropout_rate=0.0)),
        "data2vec-text": (t.Data2VecTextForMaskedLM, t.Data2VecTextConfig(**small, intermediate_size=64, max_position_embeddings=SEQ + 2,
                                                                          type_vocab_size=1, hidden_dropout_prob=0.0,
                                                                          attention_probs_dropout_prob=0.0)),
        "bart": (t.BartForConditionalGeneration, t.BartConfig(**pair)),
        "mbart": (t.MBartForConditionalGeneration, t.MBartConfig(**pair, scale_embedding=True)),
        "pegasus": (t.PegasusForConditionalGeneration, t.PegasusConfig(**pair, activation_function="relu")),
        "blenderbot": (t.BlenderbotForConditionalGeneration, t.BlenderbotConfig(**pair)),
        "blenderbot-small": (t.BlenderbotSmallForConditionalGeneration, t.BlenderbotSmallConfig(**pair)),
        "m2m_100": (t.M2M100ForConditionalGeneration, t.M2M100Config(**pair, encoder_layerdrop=0.0, decoder_layerdrop=0.0)),
        "plbart": (t.PLBartForConditionalGeneration, t.PLBartConfig(**pair)),
        "mvp": (t.MvpForConditionalGeneration, t.MvpConfig(**pair)),
        "umt5": (t.UMT5ForConditionalGeneration, t.UMT5Config(vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                                                             dropout_rate=0.0)),
        "megatron-bert": (t.MegatronBertForMaskedLM, t.MegatronBertConfig(**masked, max_position_embeddings=SEQ)),
        "ernie": (t.ErnieForMaskedLM, t.ErnieConfig(**masked, max_position_embeddings=SEQ)),
        "roberta-prelayernorm": (t.RobertaPreLayerNormForMaskedLM, t.RobertaPreLayerNormConfig(**masked, max_position_embeddings=SEQ + 2,
                                                                                              type_vocab_size=1)),
        "xlm-roberta-xl": (t.XLMRobertaXLForMaskedLM, t.XLMRobertaXLConfig(**masked, max_position_embeddings=SEQ + 2, type_vocab_size=1)),
        "deit": (t.DeiTForImageClassification, t.DeiTConfig(**patches, intermediate_size=48)),
        "dinov2": (t.Dinov2ForImageClassification, t.Dinov2Config(**patches)),
        "dinov2_gated": (t.Dinov2ForImageClassification, t.Dinov2Config(**patches, use_swiglu_ffn=True)),
        "dinov2_with_registers": (t.Dinov2WithRegistersForImageClassification, t.Dinov2WithRegistersConfig(**patches)),
        "whisper": (t.WhisperForConditionalGeneration, t.WhisperConfig(
            **{k: v for k, v in pair.items() if k != "max_position_embeddings"}, num_mel_bins=4, max_source_positions=6, max_target_positions=SEQ,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None)),
        "mpnet": (t.MPNetForMaskedLM, t.MPNetConfig(**masked, max_position_embeddings=SEQ + 2)),
        "esm": (t.EsmForMaskedLM, t.EsmConfig(**masked, max_position_embeddings=SEQ + 2, position_embedding_type="rotary", token_dropout=True,
                                              mask_token_id=1, pad_token_id=0, emb_layer_norm_before=True)),
        "nomic_bert": (t.NomicBertForMaskedLM, t.NomicBertConfig(**masked, max_position_embeddings=SEQ)),
        "jina_embeddings_v3": (t.JinaEmbeddingsV3ForMaskedLM, t.JinaEmbeddingsV3Config(**masked, max_position_embeddings=SEQ)),
        "gte": (t.GteForMaskedLM, t.GteConfig(**masked, max_position_embeddings=SEQ, pad_token_id=0)),
        "roformer": (t.RoFormerForMaskedLM, t.RoFormerConfig(**masked, max_position_embeddings=SEQ)),
        "rembert": (t.RemBertForMaskedLM, t.RemBertConfig(**masked, max_position_embeddings=SEQ, input_embedding_size=16, output_embedding_size=40)),
        # Windows of two keys on either side.
        "longformer": (t.LongformerForMaskedLM, t.LongformerConfig(**masked, max_position_embeddings=SEQ + 2, type_vocab_size=1, attention_window=4)),
        "ibert": (t.IBertForMaskedLM, t.IBertConfig(**masked, max_position_embeddings=SEQ + 2, type_vocab_size=1)),
        "layoutlm": (t.LayoutLMForMaskedLM, t.LayoutLMConfig(**masked, max_position_embeddings=SEQ, max_2d_position_embeddings=16)),
        "siglip": (t.SiglipModel, t.SiglipConfig(
            text_config=dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                             max_position_embeddings=SEQ, projection_size=24, bos_token_id=1, eos_token_id=2, pad_token_id=0),
            vision_config=dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, image_size=8, patch_size=4))),
        "siglip2": (t.Siglip2Model, t.Siglip2Config(
            text_config=dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                             max_position_embeddings=SEQ, projection_size=24, bos_token_id=1, eos_token_id=2, pad_token_id=0),
            vision_config=dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, num_patches=4, patch_size=4))),
        "convnext": (t.ConvNextForImageClassification, t.ConvNextConfig(**stages, layer_scale_init_value=0.5)),
        "convnextv2": (t.ConvNextV2ForImageClassification, t.ConvNextV2Config(**stages)),
        "swin": (t.SwinForImageClassification, t.SwinConfig(image_size=64, patch_size=4, window_size=2, embed_dim=8, depths=[2, 1, 1, 2],
                                                            num_heads=[1, 2, 2, 4], num_labels=10, drop_path_rate=0.0)),
        "donut-swin": (t.DonutSwinForImageClassification, t.DonutSwinConfig(image_size=64, patch_size=4, window_size=2, embed_dim=8,
                                                                            depths=[2, 1, 1, 2], num_heads=[1, 2, 2, 4], num_labels=10,
                                                                            drop_path_rate=0.0)),
        "segformer": (t.SegformerForImageClassification, t.SegformerConfig(
            depths=[1, 2, 1, 1], hidden_sizes=[4, 8, 8, 16], num_attention_heads=[1, 2, 2, 4], sr_ratios=[4, 2, 1, 1], num_labels=10,
            drop_path_rate=0.0)),
        "ijepa": (t.IJepaForImageClassification, t.IJepaConfig(**patches, intermediate_size=64)),
        # Biases of each layer, by the mean of the patches; of all layers and each, beside positions; of all layers, by the class token.
        "beit": (t.BeitForImageClassification, t.BeitConfig(**patches, intermediate_size=64, drop_path_rate=0.0,
                                                            use_relative_position_bias=True)),
        "beit_apart": (t.BeitForImageClassification, t.BeitConfig(
            **patches, intermediate_size=64, drop_path_rate=0.0, use_shared_relative_position_bias=True, use_mean_pooling=False,
            use_mask_token=True, layer_scale_init_value=0.0)),
        "data2vec-vision": (t.Data2VecVisionForImageClassification, t.Data2VecVisionConfig(
            **patches, intermediate_size=64, drop_path_rate=0.0, use_relative_position_bias=True, use_shared_relative_position_bias=True,
            use_absolute_position_embeddings=True)),
        # Distances of 4 and more words share rows by their logarithm.
        "deberta-v2": (t.DebertaV2ForMaskedLM, t.DebertaV2Config(
            **masked, max_position_embeddings=SEQ, relative_attention=True, position_buckets=6, norm_rel_ebd="layer_norm", share_att_key=True,
            pos_att_type="p2c|c2p", position_biased_input=False, conv_kernel_size=3, conv_act="gelu")),
        "deberta-v2_apart": (t.DebertaV2ForMaskedLM, t.DebertaV2Config(
            **masked, max_position_embeddings=SEQ, relative_attention=True, max_relative_positions=4, pos_att_type=["c2p", "p2c"],
            conv_kernel_size=3)),
        "deberta-v2_plain": (t.DebertaV2ForMaskedLM, t.DebertaV2Config(**masked, max_position_embeddings=SEQ)),
        "deberta": (t.DebertaForMaskedLM, t.DebertaConfig(**masked, max_position_embeddings=SEQ + 2, type_vocab_size=2, relative_attention=True,
                                                          pos_att_type="c2p|p2c", position_biased_input=False)),
        "mobilebert": (t.MobileBertForMaskedLM, t.MobileBertConfig(**masked, **bottleneck)),
        "mobilebert_gelu": (t.MobileBertForMaskedLM, t.MobileBertConfig(**masked, **{**bottleneck, "num_feedforward_networks": 1},
                                                                        hidden_act="gelu")),
        "fnet": (t.FNetForMaskedLM, t.FNetConfig(vocab_size=VOCAB, hidden_size=24, num_hidden_layers=2, intermediate_size=48,
                                                 hidden_dropout_prob=0.0, max_position_embeddings=SEQ, pad_token_id=0)),
        "xlm": (t.XLMWithLMHeadModel, t.XLMConfig(**lingual, n_langs=2)),
        "flaubert": (t.FlaubertWithLMHeadModel, t.FlaubertConfig(**lingual)),
        "flaubert_norm_first": (t.FlaubertWithLMHeadModel, t.FlaubertConfig(**lingual, pre_norm=True)),
        "bert-generation": (t.BertGenerationDecoder, t.BertGenerationConfig(**masked, max_position_embeddings=SEQ, is_decoder=True)),
        "git": (t.GitForCausalLM, t.GitConfig(**masked, max_position_embeddings=SEQ, vision_config=dict(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4))),
        # Two keys on either side; more positions are encoded than decoded.
        "led": (t.LEDForConditionalGeneration, t.LEDConfig(
            **{k: v for k, v in pair.items() if k != "max_position_embeddings"}, attention_window=4, max_encoder_position_embeddings=2 * SEQ,
            max_decoder_position_embeddings=SEQ)),
    }
