// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/builtin_models.h"

#include <iterator>
#include <vector>

namespace meshwright {

namespace {

// The GPT sizes up to 76 B, the mixtures called moe and the wide ResNets are those of Alpa's benchmark suite (OSDI'22),
// the next four GPTs those of D. Narayanan et al., "Efficient large-scale language model training on GPU clusters using
// Megatron-LM" (SC'21, table 1), gpt3-175b is Brown et al.'s (2020) with the suite's vocabulary. The others are their
// authors' own, by the configurations that were published with the weights; sequences of more than 8192 tokens are
// 4096 here. Which layers of a hybrid scan, attend or feed forward, and which of DeepSeek-V4 compress how, is in
// kinds_N, in base 4 (core/graph/models/{hybrid,deepseek_v4}.cpp). BERT has the head that it was trained with on masked
// words.
constexpr BuiltInModel kModels[] = {
    {"gpt-125m", "gpt:layers=12,hidden=768,heads=12,seq=1024,vocab=51200"},
    {"gpt-350m", "gpt:layers=24,hidden=1024,heads=16,seq=1024,vocab=51200"},
    {"gpt-760m", "gpt:layers=24,hidden=1536,heads=16,seq=1024,vocab=51200"},
    {"gpt-1.3b", "gpt:layers=24,hidden=2048,heads=32,seq=1024,vocab=51200"},
    {"gpt-2.6b", "gpt:layers=32,hidden=2560,heads=32,seq=1024,vocab=51200"},
    {"gpt-6.7b", "gpt:layers=32,hidden=4096,heads=32,seq=1024,vocab=51200"},
    {"gpt-15b", "gpt:layers=48,hidden=5120,heads=40,seq=1024,vocab=51200"},
    {"gpt-39b", "gpt:layers=48,hidden=8192,heads=64,seq=1024,vocab=51200"},
    {"gpt-76b", "gpt:layers=60,hidden=10240,heads=80,seq=1024,vocab=51200"},
    {"gpt-145b", "gpt:layers=80,hidden=12288,heads=96,seq=2048,vocab=51200"},
    {"gpt-310b", "gpt:layers=96,hidden=16384,heads=128,seq=2048,vocab=51200"},
    {"gpt-530b", "gpt:layers=105,hidden=20480,heads=128,seq=2048,vocab=51200"},
    {"gpt-1t", "gpt:layers=128,hidden=25600,heads=160,seq=2048,vocab=51200"},
    {"gpt3-175b", "gpt:layers=96,hidden=12288,heads=96,seq=2048,vocab=51200"},
    {"gpt2", "gpt2:layers=12,hidden=768,heads=12,seq=1024,vocab=50257", "gpt2-small"},
    {"gpt2-medium", "gpt2:layers=24,hidden=1024,heads=16,seq=1024,vocab=50257"},
    {"gpt2-large", "gpt2:layers=36,hidden=1280,heads=20,seq=1024,vocab=50257"},
    {"gpt2-xl", "gpt2:layers=48,hidden=1600,heads=25,seq=1024,vocab=50257"},
    {"gpt-j-6b",
     "decoder:layers=28,hidden=4096,heads=16,intermediate=16384,seq=2048,vocab=50400,mlp_bias=1,gated=0,"
     "gelu=1,layer_norm=1,parallel=2,head_bias=1,rotary_dims=64"},
    {"gpt-neox-20b", "gpt_neox:layers=44,hidden=6144,heads=64,seq=2048,vocab=50432"},
    {"pythia-70m", "gpt_neox:layers=6,hidden=512,heads=8,seq=2048,vocab=50304"},
    {"pythia-160m", "gpt_neox:layers=12,hidden=768,heads=12,seq=2048,vocab=50304"},
    {"pythia-410m", "gpt_neox:layers=24,hidden=1024,heads=16,seq=2048,vocab=50304"},
    {"pythia-1b", "gpt_neox:layers=16,hidden=2048,heads=8,seq=2048,vocab=50304"},
    {"pythia-1.4b", "gpt_neox:layers=24,hidden=2048,heads=16,seq=2048,vocab=50304"},
    {"pythia-2.8b", "gpt_neox:layers=32,hidden=2560,heads=32,seq=2048,vocab=50304"},
    {"pythia-6.9b", "gpt_neox:layers=32,hidden=4096,heads=32,seq=2048,vocab=50432"},
    {"pythia-12b", "gpt_neox:layers=36,hidden=5120,heads=40,seq=2048,vocab=50688"},
    {"opt-125m", "gpt2:layers=12,hidden=768,heads=12,seq=2048,vocab=50272,position_offset=2,relu=1"},
    {"opt-1.3b", "gpt2:layers=24,hidden=2048,heads=32,seq=2048,vocab=50272,position_offset=2,relu=1"},
    {"opt-2.7b", "gpt2:layers=32,hidden=2560,heads=32,seq=2048,vocab=50272,position_offset=2,relu=1"},
    {"opt-6.7b", "gpt2:layers=32,hidden=4096,heads=32,seq=2048,vocab=50272,position_offset=2,relu=1"},
    {"opt-13b", "gpt2:layers=40,hidden=5120,heads=40,seq=2048,vocab=50272,position_offset=2,relu=1"},
    {"opt-30b", "gpt2:layers=48,hidden=7168,heads=56,seq=2048,vocab=50272,position_offset=2,relu=1"},
    {"opt-66b", "gpt2:layers=64,hidden=9216,heads=72,seq=2048,vocab=50272,position_offset=2,relu=1"},
    {"opt-175b", "gpt2:layers=96,hidden=12288,heads=96,seq=2048,vocab=50272,position_offset=2,relu=1"},
    {"bloom-560m", "bloom:layers=24,hidden=1024,heads=16,seq=2048,vocab=250880"},
    {"bloom-1.1b", "bloom:layers=24,hidden=1536,heads=16,seq=2048,vocab=250880", "bloom-1b1"},
    {"bloom-1.7b", "bloom:layers=24,hidden=2048,heads=16,seq=2048,vocab=250880", "bloom-1b7"},
    {"bloom-3b", "bloom:layers=30,hidden=2560,heads=32,seq=2048,vocab=250880"},
    {"bloom-7.1b", "bloom:layers=30,hidden=4096,heads=32,seq=2048,vocab=250880", "bloom-7b1"},
    {"bloom-176b", "bloom:layers=70,hidden=14336,heads=112,seq=2048,vocab=250880", "bloom"},
    {"falcon-7b",
     "decoder:layers=32,hidden=4544,heads=71,kv_heads=1,intermediate=18176,seq=2048,vocab=65024,gated=0,"
     "gelu=1,erf=1,tied=1,layer_norm=1,parallel=2"},
    {"falcon-40b",
     "decoder:layers=60,hidden=8192,heads=128,kv_heads=8,intermediate=32768,seq=2048,vocab=65024,gated=0,"
     "gelu=1,erf=1,tied=1,layer_norm=1,parallel=1"},
    {"falcon-180b",
     "decoder:layers=80,hidden=14848,heads=232,kv_heads=8,intermediate=59392,seq=2048,vocab=65024,gated=0,"
     "gelu=1,erf=1,tied=1,layer_norm=1,parallel=1"},
    {"llama-7b", "llama:layers=32,hidden=4096,heads=32,intermediate=11008,seq=4096,vocab=32000", "llama-2-7b"},
    {"llama-13b", "llama:layers=40,hidden=5120,heads=40,intermediate=13824,seq=4096,vocab=32000", "llama-2-13b"},
    {"llama-30b", "llama:layers=60,hidden=6656,heads=52,intermediate=17920,seq=2048,vocab=32000,epsilon=1e-06"},
    {"llama-65b", "llama:layers=80,hidden=8192,heads=64,intermediate=22016,seq=2048,vocab=32000"},
    {"llama-70b", "llama:layers=80,hidden=8192,heads=64,kv_heads=8,intermediate=28672,seq=4096,vocab=32000",
     "llama-2-70b"},
    {"codellama-34b",
     "llama:layers=48,hidden=8192,heads=64,kv_heads=8,intermediate=22016,seq=4096,vocab=32000,"
     "rotary_base=1000000"},
    {"tinyllama-1.1b", "llama:layers=22,hidden=2048,heads=32,kv_heads=4,intermediate=5632,seq=2048,vocab=32000"},
    {"llama-3.1-8b",
     "llama:layers=32,hidden=4096,heads=32,kv_heads=8,intermediate=14336,seq=8192,vocab=128256,"
     "rotary_base=500000",
     "llama-3-8b"},
    {"llama-3.1-70b",
     "llama:layers=80,hidden=8192,heads=64,kv_heads=8,intermediate=28672,seq=8192,vocab=128256,"
     "rotary_base=500000",
     "llama-3-70b llama-3.3-70b"},
    {"llama-3.1-405b",
     "llama:layers=126,hidden=16384,heads=128,kv_heads=8,intermediate=53248,seq=8192,vocab=128256,"
     "rotary_base=500000"},
    {"llama-3.2-1b",
     "llama:layers=16,hidden=2048,heads=32,kv_heads=8,intermediate=8192,seq=8192,vocab=128256,tied=1,"
     "rotary_base=500000"},
    {"llama-3.2-3b",
     "llama:layers=28,hidden=3072,heads=24,kv_heads=8,intermediate=8192,seq=8192,vocab=128256,tied=1,"
     "rotary_base=500000"},
    {"llama4-scout",
     "mixtral:layers=48,hidden=5120,heads=40,kv_heads=8,head_dim=128,intermediate=16384,seq=8192,vocab=202048,"
     "experts=16,top_k=1,expert_intermediate=8192,shared_intermediate=8192,sigmoid=1,normalized=0,"
     "no_rotary_every=4,attention_chunk=8192,rotary_base=500000,weigh_inputs=1,temperature_every=8192,"
     "plain_qk_norm=1",
     "llama-4-17b-16e llama-4-17bx16e llama-4-e16 llama-4-109b"},
    {"llama4-maverick",
     "mixtral:layers=48,hidden=5120,heads=40,kv_heads=8,head_dim=128,intermediate=16384,seq=8192,vocab=202048,"
     "experts=128,top_k=1,expert_intermediate=8192,shared_intermediate=8192,mixture_every=2,sigmoid=1,"
     "normalized=0,no_rotary_every=4,attention_chunk=8192,rotary_base=500000,weigh_inputs=1,"
     "temperature_every=8192",
     "llama-4-17b-128e llama-4-17bx128e llama-4-e128 llama-4-400b"},
    {"mistral-7b",
     "llama:layers=32,hidden=4096,heads=32,kv_heads=8,intermediate=14336,seq=4096,vocab=32768,"
     "rotary_base=1000000"},
    {"mistral-nemo-12b",
     "llama:layers=40,hidden=5120,heads=32,kv_heads=8,head_dim=128,intermediate=14336,seq=4096,vocab=131072,"
     "rotary_base=1000000",
     "mistral-nemo"},
    {"mistral-small-22b",
     "llama:layers=56,hidden=6144,heads=48,kv_heads=8,head_dim=128,intermediate=16384,seq=4096,vocab=32768,"
     "rotary_base=1000000",
     "mistral-small-2409"},
    {"mistral-small-24b",
     "llama:layers=40,hidden=5120,heads=32,kv_heads=8,head_dim=128,intermediate=32768,seq=4096,vocab=131072,"
     "rotary_base=100000000",
     "mistral-small"},
    {"mistral-large-123b",
     "llama:layers=88,hidden=12288,heads=96,kv_heads=8,intermediate=28672,seq=4096,vocab=32768,"
     "rotary_base=1000000",
     "mistral-large"},
    {"mixtral-8x7b",
     "mixtral:layers=32,hidden=4096,heads=32,kv_heads=8,intermediate=14336,seq=4096,vocab=32000,experts=8,"
     "top_k=2,rotary_base=1000000"},
    {"mixtral-8x22b",
     "mixtral:layers=56,hidden=6144,heads=48,kv_heads=8,intermediate=16384,seq=4096,vocab=32000,experts=8,"
     "top_k=2,rotary_base=1000000"},
    {"qwen1.5-moe-a2.7b",
     "mixtral:layers=24,hidden=2048,heads=16,intermediate=5632,seq=4096,vocab=151936,qkv_bias=1,experts=60,"
     "top_k=4,expert_intermediate=1408,shared_intermediate=5632,normalized=0,shared_gate=1,"
     "rotary_base=1000000,epsilon=1e-06"},
    {"qwen2.5-0.5b",
     "llama:layers=24,hidden=896,heads=14,kv_heads=2,intermediate=4864,seq=4096,vocab=151936,qkv_bias=1,"
     "tied=1,rotary_base=1000000,epsilon=1e-06",
     "qwen2-0.5b qwen2.5-500m qwen2-500m"},
    {"qwen2.5-1.5b",
     "llama:layers=28,hidden=1536,heads=12,kv_heads=2,intermediate=8960,seq=4096,vocab=151936,qkv_bias=1,"
     "tied=1,rotary_base=1000000,epsilon=1e-06",
     "qwen2-1.5b"},
    {"qwen2.5-3b",
     "llama:layers=36,hidden=2048,heads=16,kv_heads=2,intermediate=11008,seq=4096,vocab=151936,qkv_bias=1,"
     "tied=1,rotary_base=1000000,epsilon=1e-06"},
    {"qwen2.5-7b",
     "llama:layers=28,hidden=3584,heads=28,kv_heads=4,intermediate=18944,seq=4096,vocab=152064,qkv_bias=1,"
     "rotary_base=1000000,epsilon=1e-06",
     "qwen2-7b"},
    {"qwen2.5-14b",
     "llama:layers=48,hidden=5120,heads=40,kv_heads=8,intermediate=13824,seq=4096,vocab=152064,qkv_bias=1,"
     "rotary_base=1000000,epsilon=1e-06"},
    {"qwen2.5-32b",
     "llama:layers=64,hidden=5120,heads=40,kv_heads=8,intermediate=27648,seq=4096,vocab=152064,qkv_bias=1,"
     "rotary_base=1000000,epsilon=1e-06"},
    {"qwen2.5-72b",
     "llama:layers=80,hidden=8192,heads=64,kv_heads=8,intermediate=29568,seq=4096,vocab=152064,qkv_bias=1,"
     "rotary_base=1000000,epsilon=1e-06",
     "qwen2-72b"},
    {"qwen2-57b-a14b",
     "mixtral:layers=28,hidden=3584,heads=28,kv_heads=4,intermediate=18944,seq=4096,vocab=151936,qkv_bias=1,"
     "experts=64,top_k=8,expert_intermediate=2560,shared_intermediate=20480,normalized=0,shared_gate=1,"
     "rotary_base=1000000,epsilon=1e-06"},
    {"qwen3-0.6b",
     "llama:layers=28,hidden=1024,heads=16,kv_heads=8,head_dim=128,intermediate=3072,seq=4096,vocab=151936,"
     "qk_norm=1,tied=1,rotary_base=1000000,epsilon=1e-06",
     "qwen3-600m"},
    {"qwen3-1.7b",
     "llama:layers=28,hidden=2048,heads=16,kv_heads=8,intermediate=6144,seq=4096,vocab=151936,qk_norm=1,"
     "tied=1,rotary_base=1000000,epsilon=1e-06"},
    {"qwen3-4b",
     "llama:layers=36,hidden=2560,heads=32,kv_heads=8,head_dim=128,intermediate=9728,seq=4096,vocab=151936,"
     "qk_norm=1,tied=1,rotary_base=1000000,epsilon=1e-06"},
    {"qwen3-8b",
     "llama:layers=36,hidden=4096,heads=32,kv_heads=8,intermediate=12288,seq=4096,vocab=151936,qk_norm=1,"
     "rotary_base=1000000,epsilon=1e-06"},
    {"qwen3-14b",
     "llama:layers=40,hidden=5120,heads=40,kv_heads=8,intermediate=17408,seq=4096,vocab=151936,qk_norm=1,"
     "rotary_base=1000000,epsilon=1e-06"},
    {"qwen3-32b",
     "llama:layers=64,hidden=5120,heads=64,kv_heads=8,head_dim=128,intermediate=25600,seq=4096,vocab=151936,"
     "qk_norm=1,rotary_base=1000000,epsilon=1e-06"},
    {"qwen3-30b-a3b",
     "mixtral:layers=48,hidden=2048,heads=32,kv_heads=4,head_dim=128,intermediate=6144,seq=4096,vocab=151936,"
     "experts=128,top_k=8,expert_intermediate=768,qk_norm=1,rotary_base=1000000"},
    {"qwen3-next-80b-a3b",
     "delta:layers=48,hidden=2048,heads=16,kv_heads=2,head_dim=256,seq=4096,vocab=151936,rotary_dims=64,"
     "delta_heads=16,delta_value_heads=32,key_dim=128,experts=512,top_k=10,expert_intermediate=512,"
     "shared_intermediate=512,rotary_base=10000000"},
    {"qwen3-235b-a22b",
     "mixtral:layers=94,hidden=4096,heads=64,kv_heads=4,head_dim=128,intermediate=12288,seq=4096,vocab=151936,"
     "experts=128,top_k=8,expert_intermediate=1536,qk_norm=1,rotary_base=1000000"},
    {"qwen3-coder-480b-a35b",
     "mixtral:layers=62,hidden=6144,heads=96,kv_heads=8,head_dim=128,intermediate=8192,seq=4096,vocab=151936,"
     "qk_norm=1,experts=160,top_k=8,expert_intermediate=2560,rotary_base=10000000,epsilon=1e-06"},
    {"qwen3.5-27b",
     "delta:layers=64,hidden=5120,heads=24,kv_heads=4,head_dim=256,intermediate=17408,seq=4096,vocab=248320,"
     "rotary_dims=64,delta_heads=16,delta_value_heads=48,key_dim=128,mtp=1,rotary_base=10000000"},
    {"qwen3.5-35b-a3b",
     "delta:layers=40,hidden=2048,heads=16,kv_heads=2,head_dim=256,seq=4096,vocab=248320,rotary_dims=64,"
     "delta_heads=16,delta_value_heads=32,key_dim=128,experts=256,top_k=8,expert_intermediate=512,"
     "shared_intermediate=512,mtp=1,rotary_base=10000000"},
    {"qwen3.5-122b-a10b",
     "delta:layers=48,hidden=3072,heads=32,kv_heads=2,head_dim=256,seq=4096,vocab=248320,rotary_dims=64,"
     "delta_heads=16,delta_value_heads=64,key_dim=128,experts=256,top_k=8,expert_intermediate=1024,"
     "shared_intermediate=1024,mtp=1,rotary_base=10000000"},
    {"qwen3.5-397b-a17b",
     "delta:layers=60,hidden=4096,heads=32,kv_heads=2,head_dim=256,seq=4096,vocab=248320,rotary_dims=64,"
     "delta_heads=16,delta_value_heads=64,key_dim=128,experts=512,top_k=10,expert_intermediate=1024,"
     "shared_intermediate=1024,mtp=1,rotary_base=10000000"},
    {"gemma-2b",
     "decoder:layers=18,hidden=2048,heads=8,kv_heads=1,intermediate=16384,seq=4096,vocab=256000,gelu=1,tied=1,"
     "epsilon=1e-06,embed_scale=45.254833995939045",
     "gemma-1.1-2b"},
    {"gemma-7b",
     "decoder:layers=28,hidden=3072,heads=16,head_dim=256,intermediate=24576,seq=4096,vocab=256000,gelu=1,"
     "tied=1,epsilon=1e-06,embed_scale=55.42562584220407",
     "gemma-1.1-7b"},
    {"gemma-2-2b",
     "decoder:layers=26,hidden=2304,heads=8,kv_heads=4,head_dim=256,intermediate=9216,seq=4096,vocab=256000,"
     "window=4096,full_every=2,gelu=1,tied=1,norms=1,capped=1,capped_scores=1,epsilon=1e-06,embed_scale=48"},
    {"gemma-2-9b",
     "decoder:layers=42,hidden=3584,heads=16,kv_heads=8,head_dim=256,intermediate=14336,seq=4096,vocab=256000,"
     "window=4096,full_every=2,gelu=1,tied=1,norms=1,capped=1,capped_scores=1,epsilon=1e-06,"
     "embed_scale=59.86651818838306"},
    {"gemma-2-27b",
     "decoder:layers=46,hidden=4608,heads=32,kv_heads=16,head_dim=128,intermediate=36864,seq=4096,"
     "vocab=256000,window=4096,full_every=2,gelu=1,tied=1,norms=1,capped=1,capped_scores=1,epsilon=1e-06,"
     "embed_scale=67.88225099390856,attention_scale=0.9428090415820634"},
    {"gemma-3-1b",
     "decoder:layers=26,hidden=1152,heads=4,kv_heads=1,head_dim=256,intermediate=6912,seq=4096,vocab=262144,"
     "window=512,full_every=6,qk_norm=1,gelu=1,tied=1,norms=1,rotary_base=1000000,epsilon=1e-06,"
     "embed_scale=33.94112549695428,window_rotary_base=10000"},
    {"gemma-3-4b",
     "decoder:layers=34,hidden=2560,heads=8,kv_heads=4,head_dim=256,intermediate=10240,seq=4096,vocab=262208,"
     "window=1024,full_every=6,qk_norm=1,gelu=1,tied=1,norms=1,rotary_base=1000000,epsilon=1e-06,"
     "embed_scale=50.59644256269407,window_rotary_base=10000"},
    {"gemma-3-12b",
     "decoder:layers=48,hidden=3840,heads=16,kv_heads=8,head_dim=256,intermediate=15360,seq=4096,vocab=262208,"
     "window=1024,full_every=6,qk_norm=1,gelu=1,tied=1,norms=1,rotary_base=1000000,epsilon=1e-06,"
     "embed_scale=61.96773353931867,window_rotary_base=10000"},
    {"gemma-3-27b",
     "decoder:layers=62,hidden=5376,heads=32,kv_heads=16,head_dim=128,intermediate=21504,seq=4096,"
     "vocab=262208,window=1024,full_every=6,qk_norm=1,gelu=1,tied=1,norms=1,rotary_base=1000000,epsilon=1e-06,"
     "embed_scale=73.32121111929344,attention_scale=0.8728715609439696,window_rotary_base=10000"},
    {"phi-2",
     "decoder:layers=32,hidden=2560,heads=32,intermediate=10240,seq=2048,vocab=51200,qkv_bias=1,out_bias=1,"
     "mlp_bias=1,gated=0,gelu=1,layer_norm=1,parallel=2,head_bias=1,rotary_dims=32"},
    {"phi-3-mini", "decoder:layers=32,hidden=3072,heads=32,intermediate=8192,seq=4096,vocab=32064,rotary_dims=96",
     "phi-3.5-mini"},
    {"phi-3-medium",
     "decoder:layers=40,hidden=5120,heads=40,kv_heads=10,intermediate=17920,seq=4096,vocab=32064,"
     "rotary_dims=128"},
    {"phi-4",
     "decoder:layers=40,hidden=5120,heads=40,kv_heads=10,intermediate=17920,seq=4096,vocab=100352,"
     "rotary_dims=128",
     "phi-4-14b"},
    {"deepseek-llm-67b", "llama:layers=95,hidden=8192,heads=64,kv_heads=8,intermediate=22016,seq=4096,vocab=102400",
     "deepseek-67b"},
    {"deepseek-v2-lite",
     "deepseek_v3:layers=27,hidden=2048,heads=16,intermediate=10944,seq=4096,vocab=102400,experts=64,top_k=6,"
     "expert_intermediate=1408,shared_intermediate=2816,dense_layers=1,normalized=0,kv_rank=512,nope_dim=128,"
     "rope_dim=64,value_dim=128,sigmoid=0,selection_bias=0,epsilon=1e-06",
     "deepseek-2-16b deepseek-v3-16b"},
    {"deepseek-v2",
     "deepseek_v3:layers=60,hidden=5120,heads=128,intermediate=12288,seq=4096,vocab=102400,experts=160,"
     "top_k=6,expert_intermediate=1536,shared_intermediate=3072,dense_layers=1,q_rank=1536,kv_rank=512,"
     "nope_dim=128,rope_dim=64,value_dim=128",
     "deepseek-v2.5 deepseek-2-236b deepseek-v3-236b"},
    {"deepseek-v3",
     "deepseek_v3:layers=61,hidden=7168,heads=128,intermediate=18432,seq=4096,vocab=129280,experts=256,"
     "top_k=8,expert_intermediate=2048,shared_intermediate=2048,dense_layers=3,q_rank=1536,kv_rank=512,"
     "nope_dim=128,rope_dim=64,value_dim=128",
     "deepseek-r1 deepseek-3-671b"},
    {"deepseek-v3.2",
     "deepseek_v3:layers=61,hidden=7168,heads=128,intermediate=18432,seq=4096,vocab=129280,experts=256,"
     "top_k=8,expert_intermediate=2048,shared_intermediate=2048,dense_layers=3,q_rank=1536,kv_rank=512,"
     "nope_dim=128,rope_dim=64,value_dim=128,index_heads=64,index_dim=128,index_top_k=2048,mtp=1,"
     "epsilon=1e-06,routed_scale=2.5",
     "deepseek-3.2-671b"},
    {"deepseek-v4-flash",
     "deepseek_v4:layers=43,hidden=4096,heads=64,head_dim=512,seq=4096,vocab=129280,rope_dim=64,q_rank=1024,"
     "out_groups=8,out_rank=1024,index_heads=64,index_dim=128,index_top_k=512,experts=256,top_k=6,"
     "expert_intermediate=2048,shared_intermediate=2048,hash_layers=3,kinds_0=691752902764108176,"
     "kinds_1=26843545,routed_scale=1.5",
     "deepseek-v4-284b"},
    {"deepseek-v4-pro",
     "deepseek_v4:layers=61,hidden=7168,heads=128,head_dim=512,seq=4096,vocab=129280,rope_dim=64,q_rank=1536,"
     "out_groups=16,out_rank=1024,index_heads=64,index_dim=128,index_top_k=1024,experts=384,top_k=6,"
     "expert_intermediate=3072,shared_intermediate=3072,hash_layers=3,kinds_0=691752902764108186,"
     "kinds_1=691752902764108185,kinds_2=1,routed_scale=2.5"},
    {"moonlight-16b-a3b",
     "deepseek_v3:layers=27,hidden=2048,heads=16,intermediate=11264,seq=4096,vocab=163840,experts=64,top_k=6,"
     "expert_intermediate=1408,shared_intermediate=2816,dense_layers=1,kv_rank=512,nope_dim=128,rope_dim=64,"
     "value_dim=128,rotary_base=50000,epsilon=1e-06,routed_scale=2.446"},
    {"kimi-k2",
     "deepseek_v3:layers=61,hidden=7168,heads=64,intermediate=18432,seq=4096,vocab=163840,experts=384,top_k=8,"
     "expert_intermediate=2048,shared_intermediate=2048,dense_layers=1,q_rank=1536,kv_rank=512,nope_dim=128,"
     "rope_dim=64,value_dim=128"},
    {"glm-4.5",
     "decoder_moe:layers=92,hidden=5120,heads=96,kv_heads=8,head_dim=128,intermediate=12288,seq=4096,"
     "vocab=151552,qkv_bias=1,qk_norm=1,experts=160,top_k=8,expert_intermediate=1536,shared_intermediate=1536,"
     "dense_layers=3,sigmoid=1,rotary_dims=64,selection_bias=1,rotary_base=1000000,routed_scale=2.5",
     "glm-4.6"},
    {"glm-4.5-air",
     "decoder_moe:layers=46,hidden=4096,heads=96,kv_heads=8,head_dim=128,intermediate=10944,seq=4096,"
     "vocab=151552,qkv_bias=1,experts=128,top_k=8,expert_intermediate=1408,shared_intermediate=1408,"
     "dense_layers=1,sigmoid=1,rotary_dims=64,selection_bias=1,rotary_base=1000000"},
    {"glm-5",
     "deepseek_v3:layers=78,hidden=6144,heads=64,intermediate=12288,seq=4096,vocab=154880,experts=256,top_k=8,"
     "expert_intermediate=2048,shared_intermediate=2048,dense_layers=3,q_rank=2048,kv_rank=512,nope_dim=192,"
     "rope_dim=64,value_dim=256,index_heads=32,index_dim=128,index_top_k=2048,mtp=1,rotary_base=1000000,"
     "routed_scale=2.5"},
    {"minimax-m2",
     "decoder_moe:layers=62,hidden=3072,heads=48,kv_heads=8,head_dim=128,intermediate=1536,seq=4096,"
     "vocab=200064,experts=256,top_k=8,sigmoid=1,wide_qk_norm=1,rotary_dims=64,selection_bias=1,"
     "rotary_base=5000000,epsilon=1e-06",
     "minimax-m2.5"},
    {"gpt-oss-20b",
     "mixtral:layers=24,hidden=2880,heads=64,kv_heads=8,head_dim=64,intermediate=2880,seq=4096,vocab=201088,"
     "window=128,full_every=2,qkv_bias=1,out_bias=1,experts=32,top_k=4,router_bias=1,expert_bias=1,sinks=1,"
     "clipped_gate=1,rotary_base=150000"},
    {"gpt-oss-120b",
     "mixtral:layers=36,hidden=2880,heads=64,kv_heads=8,head_dim=64,intermediate=2880,seq=4096,vocab=201088,"
     "window=128,full_every=2,qkv_bias=1,out_bias=1,experts=128,top_k=4,router_bias=1,expert_bias=1,sinks=1,"
     "clipped_gate=1,rotary_base=150000"},
    {"dbrx",
     "decoder_moe:layers=40,hidden=6144,heads=48,kv_heads=8,intermediate=10752,seq=4096,vocab=100352,"
     "experts=16,top_k=4,layer_norm=2,bounded_qkv=1,rotary_base=500000"},
    {"olmoe-1b-7b",
     "decoder_moe:layers=16,hidden=2048,heads=16,intermediate=1024,seq=4096,vocab=50304,experts=64,top_k=8,"
     "normalized=0,wide_qk_norm=1",
     "olmoe"},
    {"yi-6b",
     "llama:layers=32,hidden=4096,heads=32,kv_heads=4,intermediate=11008,seq=4096,vocab=64000,"
     "rotary_base=5000000",
     "yi-1.5-6b"},
    {"yi-34b",
     "llama:layers=60,hidden=7168,heads=56,kv_heads=8,intermediate=20480,seq=4096,vocab=64000,"
     "rotary_base=5000000",
     "yi-1.5-34b"},
    {"smollm2-135m",
     "llama:layers=30,hidden=576,heads=9,kv_heads=3,intermediate=1536,seq=4096,vocab=49152,tied=1,"
     "rotary_base=100000",
     "smollm-135m"},
    {"smollm2-360m",
     "llama:layers=32,hidden=960,heads=15,kv_heads=5,intermediate=2560,seq=4096,vocab=49152,tied=1,"
     "rotary_base=100000",
     "smollm-360m"},
    {"smollm2-1.7b",
     "llama:layers=24,hidden=2048,heads=32,intermediate=8192,seq=4096,vocab=49152,tied=1,rotary_base=130000",
     "smollm-1.7b"},
    {"starcoder2-3b",
     "decoder:layers=30,hidden=3072,heads=24,kv_heads=2,intermediate=12288,seq=4096,vocab=49152,window=4096,"
     "qkv_bias=1,out_bias=1,mlp_bias=1,gated=0,gelu=1,tied=1,layer_norm=1,rotary_base=1000000"},
    {"starcoder2-7b",
     "decoder:layers=32,hidden=4608,heads=36,kv_heads=4,intermediate=18432,seq=4096,vocab=49152,window=4096,"
     "qkv_bias=1,out_bias=1,mlp_bias=1,gated=0,gelu=1,tied=1,layer_norm=1,rotary_base=1000000"},
    {"starcoder2-15b",
     "decoder:layers=40,hidden=6144,heads=48,kv_heads=4,intermediate=24576,seq=4096,vocab=49152,window=4096,"
     "qkv_bias=1,out_bias=1,mlp_bias=1,gated=0,gelu=1,layer_norm=1,rotary_base=1000000"},
    {"olmo-2-7b",
     "decoder:layers=32,hidden=4096,heads=32,intermediate=11008,seq=4096,vocab=100352,norms=2,wide_qk_norm=1,"
     "rotary_base=500000,epsilon=1e-06"},
    {"olmo-2-13b",
     "decoder:layers=40,hidden=5120,heads=40,intermediate=13824,seq=4096,vocab=100352,norms=2,wide_qk_norm=1,"
     "rotary_base=500000,epsilon=1e-06"},
    {"olmo-2-32b",
     "decoder:layers=64,hidden=5120,heads=40,kv_heads=8,intermediate=27648,seq=4096,vocab=100352,norms=2,"
     "wide_qk_norm=1,rotary_base=500000,epsilon=1e-06"},
    {"nemotron-4-15b",
     "decoder:layers=32,hidden=6144,heads=48,kv_heads=8,intermediate=24576,seq=4096,vocab=256000,gated=0,"
     "layer_norm=1,rotary_dims=64,relu_squared=1"},
    {"nemotron-4-340b",
     "decoder:layers=96,hidden=18432,heads=96,kv_heads=8,intermediate=73728,seq=4096,vocab=256000,gated=0,"
     "layer_norm=1,rotary_dims=96,relu_squared=1"},
    {"nemotron-h-56b",
     "hybrid:layers=118,hidden=8192,heads=64,kv_heads=8,seq=4096,vocab=131072,scan_heads=256,scan_head_dim=64,"
     "scan_groups=8,state=256,scan_chunk=128,group_norm=1,kinds_0=326661134203635848,"
     "kinds_1=153725506109448738,kinds_2=615060354149943442,kinds_3=38430719397209224",
     "nemotronh-56b"},
    {"nemotron-3-nano-30b-a3b",
     "hybrid:layers=52,hidden=2688,heads=32,kv_heads=2,head_dim=128,intermediate=1856,seq=4096,vocab=131072,"
     "scan_heads=64,scan_head_dim=64,scan_groups=8,state=128,scan_chunk=128,experts=128,top_k=6,"
     "expert_intermediate=1856,shared_intermediate=3712,group_norm=1,kinds_0=924138753494299852,"
     "kinds_1=14073755546444,routed_scale=2.5",
     "nemotron-3-nano"},
    {"nemotron-3-super-120b-a12b",
     "hybrid:layers=88,hidden=4096,heads=32,kv_heads=2,intermediate=2688,seq=4096,vocab=131072,scan_heads=128,"
     "scan_head_dim=64,scan_groups=8,state=128,scan_chunk=128,experts=512,top_k=22,expert_intermediate=2688,"
     "shared_intermediate=5376,expert_latent=1024,group_norm=1,kinds_0=231034662602099916,"
     "kinds_1=951160248172598067,kinds_2=57646102718237900,mtp=1,mtp_layers=2,mtp_kinds=13,routed_scale=5",
     "nemotron-3-super"},
    {"command-r",
     "decoder:layers=40,hidden=8192,heads=64,intermediate=22528,seq=4096,vocab=256000,tied=1,layer_norm=2,"
     "parallel=2,rotary_base=8000000,logit_scale=0.0625",
     "command-r-35b"},
    {"command-r-plus",
     "decoder:layers=64,hidden=12288,heads=96,kv_heads=8,intermediate=33792,seq=4096,vocab=256000,tied=1,"
     "layer_norm=2,parallel=2,head_qk_norm=1,rotary_base=75000000,logit_scale=0.8333333333333334",
     "command-r-104b"},
    {"granite-3.1-8b",
     "decoder:layers=40,hidden=4096,heads=32,kv_heads=8,intermediate=12800,seq=4096,vocab=49155,tied=1,"
     "rotary_base=10000000,embed_scale=12,residual_scale=0.22,attention_scale=0.08838834764831845,"
     "logit_scale=0.0625"},
    {"granite-3.1-2b",
     "decoder:layers=40,hidden=2048,heads=32,kv_heads=8,intermediate=8192,seq=4096,vocab=49155,tied=1,"
     "rotary_base=10000000,embed_scale=12,residual_scale=0.22,attention_scale=0.125,logit_scale=0.125"},
    {"mamba-2.8b",
     "hybrid:layers=64,hidden=2560,heads=1,seq=2048,vocab=50280,scan_heads=5120,scan_head_dim=1,state=16,"
     "scan_rank=160,tied=1"},
    {"bert-base", "bert:layers=12,hidden=768,heads=12,seq=512,vocab=30522", "bert-110m"},
    {"bert-large", "bert:layers=24,hidden=1024,heads=16,seq=512,vocab=30522", "bert-340m"},
    {"roberta-base",
     "bert:layers=12,hidden=768,heads=12,seq=512,vocab=50265,position_offset=2,token_types=1,epsilon=1e-05"},
    {"roberta-large",
     "bert:layers=24,hidden=1024,heads=16,seq=512,vocab=50265,position_offset=2,token_types=1,epsilon=1e-05"},
    {"t5-small", "t5:layers=6,hidden=512,heads=8,intermediate=2048,seq=512,vocab=32128,gated=0,relu=1,tied=1"},
    {"t5-base", "t5:layers=12,hidden=768,heads=12,intermediate=3072,seq=512,vocab=32128,gated=0,relu=1,tied=1",
     "t5-220m"},
    {"t5-large", "t5:layers=24,hidden=1024,heads=16,intermediate=4096,seq=512,vocab=32128,gated=0,relu=1,tied=1"},
    {"t5-3b",
     "t5:layers=24,hidden=1024,heads=32,head_dim=128,intermediate=16384,seq=512,vocab=32128,gated=0,relu=1,"
     "tied=1"},
    {"t5-11b",
     "t5:layers=24,hidden=1024,heads=128,head_dim=128,intermediate=65536,seq=512,vocab=32128,gated=0,relu=1,"
     "tied=1"},
    {"mlp", "mlp:layers=2,hidden=2048"},
    {"moe-380m", "moe:layers=8,hidden=768,heads=16,experts=8,seq=1024,vocab=32000"},
    {"moe-690m", "moe:layers=8,hidden=768,heads=16,experts=16,seq=1024,vocab=32000"},
    {"moe-1.3b", "moe:layers=16,hidden=768,heads=16,experts=16,seq=1024,vocab=32000"},
    {"moe-2.4b", "moe:layers=16,hidden=1024,heads=16,experts=16,seq=1024,vocab=32000"},
    {"moe-7.1b", "moe:layers=16,hidden=1280,heads=16,experts=32,seq=1024,vocab=32000"},
    {"moe-10b", "moe:layers=16,hidden=1536,heads=16,experts=32,seq=1024,vocab=32000"},
    {"moe-27b", "moe:layers=16,hidden=2048,heads=16,experts=48,seq=1024,vocab=32000"},
    {"moe-70b", "moe:layers=32,hidden=2048,heads=16,experts=64,seq=1024,vocab=32000"},
    {"moe-140b", "moe:layers=32,hidden=2048,heads=16,experts=128,seq=1024,vocab=32000"},
    {"wresnet-250m", "wresnet:layers=50,channels=160,width=2,image=224,classes=1024"},
    {"wresnet-500m", "wresnet:layers=50,channels=224,width=2,image=224,classes=1024"},
    {"wresnet-1b", "wresnet:layers=50,channels=320,width=2,image=224,classes=1024"},
    {"wresnet-2b", "wresnet:layers=50,channels=448,width=2,image=224,classes=1024"},
    {"wresnet-4b", "wresnet:layers=50,channels=640,width=2,image=224,classes=1024"},
    {"wresnet-6.8b", "wresnet:layers=50,channels=320,width=16,image=224,classes=1024"},
    {"wresnet-13b", "wresnet:layers=101,channels=320,width=16,image=224,classes=1024", "", 1520},
    {"vit-b16", "vit:layers=12,hidden=768,heads=12,image=224,patch=16,classes=1000"},
    {"vit-l16", "vit:layers=24,hidden=1024,heads=16,image=224,patch=16,classes=1000"},
    {"vit-h14", "vit:layers=32,hidden=1280,heads=16,image=224,patch=14,classes=1000"},
    {"clip-b32",
     "two_tower:layers=12,hidden=768,heads=12,image=224,patch=32,text_layers=12,text_hidden=512,text_heads=8,"
     "seq=77,vocab=49408,embed=512"},
    {"clip-l14",
     "two_tower:layers=24,hidden=1024,heads=16,image=224,patch=14,text_layers=12,text_hidden=768,"
     "text_heads=12,seq=77,vocab=49408,embed=768"},
};

}  // namespace

std::span<const BuiltInModel> builtin_sizes() {
  static const std::vector<BuiltInModel> all = [] {
    std::vector<BuiltInModel> models(std::begin(kModels), std::end(kModels));
    models.insert(models.end(), hub_models().begin(), hub_models().end());
    return models;
  }();
  return all;
}

}  // namespace meshwright
