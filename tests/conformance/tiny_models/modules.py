# SPDX-License-Identifier: Apache-2.0
"""Classes that transformers has not, and transformers in double precision."""
import sys

import torch
import transformers


class DoubleTorch:
    """torch for transformers: where it computes in single precision whatever the model's, it computes in double."""

    float32 = float = torch.float64
    FloatTensor = torch.DoubleTensor

    def __getattr__(self, name):
        return getattr(torch, name)


def compute_in_double():
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double
    for name, module in list(sys.modules.items()):
        if name.startswith("transformers.") and ".modeling" in name and getattr(module, "torch", None) is torch:
            module.torch = DoubleTorch()
        if hasattr(module, "BloomGelu"):  # whose constant has 8 digits
            module.BloomGelu.forward = lambda self, x: torch.nn.functional.gelu(x, approximate="tanh")
        if name.endswith(".modeling_recurrent_gemma"):  # which sums in what was single precision when it was defined
            module.RecurrentGemmaRglru._rnn_scan.__defaults__ = (torch.float64,)


class FurtherToken(torch.nn.Module):
    """MiMo's module behind the blocks: it reads what these made of a token, and the embedding of the next one."""

    def __init__(self, config):
        super().__init__()
        qwen2 = transformers.models.qwen2.modeling_qwen2
        norm = lambda: qwen2.Qwen2RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.token_layernorm, self.hidden_layernorm, self.final_layernorm = norm(), norm(), norm()
        self.input_proj = torch.nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        layer = qwen2.Qwen2DecoderLayer(config, 0)  # whose parts are the module's own in files
        for name, part in layer.named_children():
            setattr(self, name, part)

    def forward(self, before, embedded, rotation, mask):
        x = self.input_proj(torch.cat([self.hidden_layernorm(before), self.token_layernorm(embedded)], dim=-1))
        x = x + self.self_attn(self.input_layernorm(x), position_embeddings=rotation, attention_mask=mask)[0]
        return self.final_layernorm(x + self.mlp(self.post_attention_layernorm(x)))


class MimoForCausalLM(transformers.Qwen2ForCausalLM):
    def __init__(self, config):
        super().__init__(config)
        self.model.mtp_layers = torch.nn.ModuleList([FurtherToken(config)])
        self.model.layers[-1].register_forward_hook(lambda _, __, made: setattr(self, "made", made))

    def further_logits(self, following):
        """Of the last call's tokens, which `following` came after."""
        before = self.made[0] if isinstance(self.made, tuple) else self.made
        positions = torch.arange(before.shape[1])[None]
        mask = torch.full((before.shape[1],) * 2, -torch.inf, dtype=before.dtype).triu(1)[None, None]
        made = self.model.mtp_layers[0](before, self.model.embed_tokens(following), self.model.rotary_emb(before, positions), mask)
        return self.lm_head(made)


class Bottleneck(torch.nn.Module):
    """Of the wide residual networks of Alpa's benchmark: the second of three convolutions is the wide one."""

    def __init__(self, into, base, width, stride, first):
        super().__init__()
        n = torch.nn
        self.conv1, self.bn1 = n.Conv2d(into, base, 1, bias=False), n.BatchNorm2d(base)
        self.conv2, self.bn2 = n.Conv2d(base, base * width, 3, stride, 1, bias=False), n.BatchNorm2d(base * width)
        self.conv3, self.bn3 = n.Conv2d(base * width, 4 * base, 1, bias=False), n.BatchNorm2d(4 * base)
        self.downsample = n.Sequential(n.Conv2d(into, 4 * base, 1, stride, bias=False), n.BatchNorm2d(4 * base)) if first else None

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(torch.relu(self.bn2(self.conv2(y)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class WideResNet(torch.nn.Module):
    def __init__(self, channels, width, classes):
        super().__init__()
        n = torch.nn
        self.conv1, self.bn1 = n.Conv2d(3, channels, 7, 2, 3, bias=False), n.BatchNorm2d(channels)
        self.maxpool = n.MaxPool2d(3, 2, 1)
        into = channels
        for stage in range(4):
            block = Bottleneck(into, channels << stage, width, 2 if stage > 0 else 1, True)
            setattr(self, f"layer{stage + 1}", n.Sequential(block))
            into = 4 * (channels << stage)
        self.fc = n.Linear(into, classes)

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for stage in range(4):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))
