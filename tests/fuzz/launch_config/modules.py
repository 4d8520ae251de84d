m### main
from dataclasses import replace
from .common import base, shared as tune, PRESETS
from p.sizes import *
import p.tools as tools

@register
def recipe(gpu="h100", *args, steps=10, **more):
    cfg = base(tp=2)
    tune(cfg, pp=SIZE // 2)
    try:
        cfg.model.layout = tools.layout(cfg.model.pp or 1, PRESETS.get((gpu, 1)))
    except ValueError as error:
        pass
    if gpu in ("h100", "h200") and not cfg.model.open is None:
        cfg.name = f"{gpu}_{steps:>3}" "x"
    elif probe(): cfg.train.gbs = 8; cfg.train.mbs = 1
    else:
        return replace(cfg, peft=None)
    cfg.env = {**COMMON, "A": 1, **more}
    cfg.sizes = [len(s) for s in cfg.model.layout if s]
    return cfg
### common
from .sizes import SIZE
class Preset(Base):
    tp: int = field(default=1)
PRESETS = {("h100", 1): Preset(tp=2), "b200": None}
def base(tp: int = 1):
    return C(model=M(tp=tp), train=T(steps=5, gbs=-7 % 3 ** 2))
def shared(of, *, pp=1):
    if of.model.tp > 1:
        return
    of.model.pp += pp
### sizes
from .common import PRESETS as again
SIZE = 0x10
### tools
def layout(pp, preset):
    stages = [["e"] + ["d"] * 2] * pp
    for i, (a, b) in enumerate(zip(stages, range(pp))):
        stages[i] = a + ["d"] * b
        while i: break
    else:
        stages.append(["l"])
    assert pp, "none"
    if not preset: raise ValueError(pp)
    return stages
