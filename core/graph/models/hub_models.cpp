// SPDX-License-Identifier: Apache-2.0
// Models of hubs that launch files name beside those of builtin_models.cpp, by the configurations that their makers
// published; sequences of more than 8192 tokens are 4096 here, too.
#include "core/graph/models/builtin_models.h"

namespace meshwright {

namespace {

constexpr BuiltInModel kHubModels[] = {
    {"qwen-1.8b",
     "llama:layers=24,hidden=2048,heads=16,seq=4096,vocab=151936,intermediate=5504,qkv_bias=1,epsilon=1e-06"},
    {"qwen-7b",
     "llama:layers=32,hidden=4096,heads=32,seq=4096,vocab=151936,intermediate=11008,qkv_bias=1,epsilon=1e-06"},
    {"qwen-14b",
     "llama:layers=40,hidden=5120,heads=40,seq=4096,vocab=152064,intermediate=13696,qkv_bias=1,epsilon=1e-06"},
    {"qwen-72b",
     "llama:layers=80,hidden=8192,heads=64,seq=4096,vocab=152064,intermediate=24576,qkv_bias=1,epsilon=1e-06"},
    {"qwen1.5-0.5b",
     "llama:layers=24,hidden=1024,heads=16,seq=4096,vocab=151936,intermediate=2816,qkv_bias=1,tied=1,rotary_base="
     "1000000,epsilon=1e-06"},
    {"qwen1.5-1.8b",
     "llama:layers=24,hidden=2048,heads=16,seq=4096,vocab=151936,intermediate=5504,qkv_bias=1,rotary_base=1000000,"
     "epsilon=1e-06"},
    {"qwen1.5-4b",
     "llama:layers=40,hidden=2560,heads=20,seq=4096,vocab=151936,intermediate=6912,qkv_bias=1,rotary_base=1000000,"
     "epsilon=1e-06"},
    {"qwen1.5-7b",
     "llama:layers=32,hidden=4096,heads=32,seq=4096,vocab=151936,intermediate=11008,qkv_bias=1,rotary_base=1000000,"
     "epsilon=1e-06"},
    {"qwen1.5-14b",
     "llama:layers=40,hidden=5120,heads=40,seq=4096,vocab=152064,intermediate=13696,qkv_bias=1,rotary_base=1000000,"
     "epsilon=1e-06"},
    {"qwen1.5-32b",
     "llama:layers=64,hidden=5120,heads=40,seq=4096,vocab=152064,intermediate=27392,kv_heads=8,qkv_bias=1,rotary_base="
     "1000000,epsilon=1e-06"},
    {"qwen1.5-72b",
     "llama:layers=80,hidden=8192,heads=64,seq=4096,vocab=152064,intermediate=24576,qkv_bias=1,rotary_base=1000000,"
     "epsilon=1e-06"},
    {"qwen1.5-110b",
     "llama:layers=80,hidden=8192,heads=64,seq=4096,vocab=152064,intermediate=49152,kv_heads=8,qkv_bias=1,rotary_base="
     "1000000,epsilon=1e-06"},
    {"deepseek-r1-distill-qwen-1.5b",
     "llama:layers=28,hidden=1536,heads=12,seq=4096,vocab=151936,intermediate=8960,kv_heads=2,qkv_bias=1,rotary_base="
     "1000000,epsilon=1e-06"},
    {"deepseek-r1-distill-qwen-7b",
     "llama:layers=28,hidden=3584,heads=28,seq=4096,vocab=152064,intermediate=18944,kv_heads=4,qkv_bias=1,rotary_base="
     "1000000,epsilon=1e-06"},
    {"deepseek-r1-distill-qwen-14b",
     "llama:layers=48,hidden=5120,heads=40,seq=4096,vocab=152064,intermediate=13824,kv_heads=8,qkv_bias=1,rotary_base="
     "1000000,epsilon=1e-06"},
    {"deepseek-r1-distill-qwen-32b",
     "llama:layers=64,hidden=5120,heads=40,seq=4096,vocab=152064,intermediate=27648,kv_heads=8,qkv_bias=1,rotary_base="
     "1000000,epsilon=1e-06",
     "qwq-32b"},
    {"deepseek-r1-distill-llama-8b",
     "llama:layers=32,hidden=4096,heads=32,seq=4096,vocab=128256,intermediate=14336,kv_heads=8,rotary_base=500000"},
    {"deepseek-r1-distill-llama-70b",
     "llama:layers=80,hidden=8192,heads=64,seq=4096,vocab=128256,intermediate=28672,kv_heads=8,rotary_base=500000"},
    {"deepseek-llm-7b", "llama:layers=30,hidden=4096,heads=32,seq=4096,vocab=102400,intermediate=11008"},
    {"deepseek-coder-1.3b",
     "llama:layers=24,hidden=2048,heads=16,seq=4096,vocab=32256,intermediate=5504,rotary_base=100000"},
    {"deepseek-coder-6.7b",
     "llama:layers=32,hidden=4096,heads=32,seq=4096,vocab=32256,intermediate=11008,rotary_base=100000"},
    {"deepseek-coder-33b",
     "llama:layers=62,hidden=7168,heads=56,seq=4096,vocab=32256,intermediate=19200,kv_heads=8,rotary_base=100000"},
    {"codellama-7b",
     "llama:layers=32,hidden=4096,heads=32,seq=4096,vocab=32016,intermediate=11008,rotary_base=1000000"},
    {"codellama-13b",
     "llama:layers=40,hidden=5120,heads=40,seq=4096,vocab=32016,intermediate=13824,rotary_base=1000000"},
    {"vicuna-7b", "llama:layers=32,hidden=4096,heads=32,seq=4096,vocab=32000,intermediate=11008"},
    {"vicuna-13b", "llama:layers=40,hidden=5120,heads=40,seq=4096,vocab=32000,intermediate=13824"},
    {"vicuna-33b", "llama:layers=60,hidden=6656,heads=52,seq=4096,vocab=32000,intermediate=17920"},
    {"tulu-2-7b", "llama:layers=32,hidden=4096,heads=32,seq=4096,vocab=32001,intermediate=11008"},
    {"tulu-2-13b", "llama:layers=40,hidden=5120,heads=40,seq=4096,vocab=32001,intermediate=13824"},
    {"tulu-2-70b", "llama:layers=80,hidden=8192,heads=64,seq=4096,vocab=32001,intermediate=28672,kv_heads=8"},
    {"baichuan2-7b", "llama:layers=32,hidden=4096,heads=32,seq=4096,vocab=125696,intermediate=11008,epsilon=1e-06"},
    {"internlm2-1.8b",
     "llama:layers=24,hidden=2048,heads=16,seq=4096,vocab=92544,intermediate=8192,kv_heads=8,rotary_base=1000000"},
    {"internlm2-7b",
     "llama:layers=32,hidden=4096,heads=32,seq=4096,vocab=92544,intermediate=14336,kv_heads=8,rotary_base=1000000",
     "internlm2.5-7b"},
    {"internlm2-20b",
     "llama:layers=48,hidden=6144,heads=48,seq=4096,vocab=92544,intermediate=16384,kv_heads=8,rotary_base=1000000",
     "internlm2.5-20b"},
    {"yi-9b", "llama:layers=48,hidden=4096,heads=32,seq=4096,vocab=64000,intermediate=11008,kv_heads=4"},
    {"phi-1.5",
     "decoder:layers=24,hidden=2048,heads=32,seq=2048,vocab=51200,intermediate=8192,qkv_bias=1,out_bias=1,mlp_bias=1,"
     "gated=0,gelu=1,layer_norm=1,parallel=2,head_bias=1,rotary_dims=32"},
    {"opt-350m",
     "gpt2:layers=24,hidden=1024,heads=16,seq=2048,vocab=50272,intermediate=4096,position_offset=2,word_embed=512,relu="
     "1,post_norm=1,final_norm=0"},
    {"olmo-1b", "decoder:layers=16,hidden=2048,heads=16,seq=2048,vocab=50304,intermediate=8192,tied=1,layer_norm=3",
     "olmo-1.7-1b"},
    {"olmo-7b", "decoder:layers=32,hidden=4096,heads=32,seq=2048,vocab=50304,intermediate=11008,layer_norm=3"},
    {"olmo-1.7-7b",
     "decoder:layers=32,hidden=4096,heads=32,seq=4096,vocab=50304,intermediate=11008,layer_norm=3,bounded_qkv=1"},
    {"smollm3-3b",
     "decoder:layers=36,hidden=2048,heads=16,seq=4096,vocab=128256,intermediate=11008,kv_heads=4,tied=1,no_rotary_"
     "every=4,rotary_base=5000000,epsilon=1e-06"},
    {"gpt-neo-125m",
     "gpt2:layers=12,hidden=768,heads=12,seq=2048,vocab=50257,intermediate=3072,window=256,first_window_layer=1,full_"
     "every=2,qkv_bias=0,scaled=0"},
    {"gpt-neo-1.3b",
     "gpt2:layers=24,hidden=2048,heads=16,seq=2048,vocab=50257,intermediate=8192,window=256,first_window_layer=1,full_"
     "every=2,qkv_bias=0,scaled=0"},
    {"gpt-neo-2.7b",
     "gpt2:layers=32,hidden=2560,heads=20,seq=2048,vocab=50257,intermediate=10240,window=256,first_window_layer=1,full_"
     "every=2,qkv_bias=0,scaled=0"},
    {"starcoderbase-15.5b",
     "gpt2:layers=40,hidden=6144,heads=48,seq=4096,vocab=49152,intermediate=24576,kv_heads=1,positions=8192,erf=1",
     "starcoder starcoderbase"},
    {"chatglm3-6b",
     "decoder:layers=28,hidden=4096,heads=32,seq=4096,vocab=65024,intermediate=13696,kv_heads=2,qkv_bias=1,rotary_dims="
     "64",
     "chatglm2-6b"},
    {"mpt-7b", "bloom:layers=32,hidden=4096,heads=32,seq=2048,vocab=50432,erf=1,bias=0,norm_bias=0,embedding_norm=0"},
    {"mpt-30b", "bloom:layers=48,hidden=7168,heads=64,seq=2048,vocab=50432,erf=1,bias=0,norm_bias=0,embedding_norm=0"},
    {"pythia-14m", "gpt_neox:layers=6,hidden=128,heads=4,seq=2048,vocab=50304,intermediate=512"},
    {"pythia-31m", "gpt_neox:layers=6,hidden=256,heads=8,seq=2048,vocab=50304,intermediate=1024"},
    {"flan-t5-small",
     "t5:layers=8,hidden=512,heads=6,seq=512,vocab=32128,intermediate=1024,head_dim=64,decoder_layers=8",
     "t5-v1.1-small"},
    {"flan-t5-base", "t5:layers=12,hidden=768,heads=12,seq=512,vocab=32128,intermediate=2048", "t5-v1.1-base"},
    {"flan-t5-large", "t5:layers=24,hidden=1024,heads=16,seq=512,vocab=32128,intermediate=2816", "t5-v1.1-large"},
    {"flan-t5-xl", "t5:layers=24,hidden=2048,heads=32,seq=512,vocab=32128,intermediate=5120", "flan-t5-3b t5-v1.1-xl"},
    {"flan-t5-xxl", "t5:layers=24,hidden=4096,heads=64,seq=512,vocab=32128,intermediate=10240",
     "flan-t5-11b t5-v1.1-xxl"},
    {"olmo-3-7b",
     "decoder:layers=32,hidden=4096,heads=32,seq=4096,vocab=100278,intermediate=11008,window=4096,full_every=4,norms=2,"
     "wide_qk_norm=1,rotary_base=500000,epsilon=1e-06"},
    {"olmo-3-32b",
     "decoder:layers=64,hidden=5120,heads=40,seq=4096,vocab=100278,intermediate=27648,kv_heads=8,window=4096,full_"
     "every=4,norms=2,wide_qk_norm=1,rotary_base=500000,epsilon=1e-06"},
    {"open-llama-3b", "llama:layers=26,hidden=3200,heads=32,seq=4096,vocab=32000,intermediate=8640"},
    {"zephyr-7b",
     "llama:layers=32,hidden=4096,heads=32,seq=4096,vocab=32000,intermediate=14336,kv_heads=8,window=4096"},
    {"redpajama-incite-3b",
     "gpt_neox:layers=32,hidden=2560,heads=32,seq=2048,vocab=50432,intermediate=10240,rotary_dims=80,parallel=0"},
};

}  // namespace

std::span<const BuiltInModel> hub_models() { return kHubModels; }

}  // namespace meshwright
