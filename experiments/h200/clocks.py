#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far a GPU slows down under load: products and copies in several mixtures, each for two seconds, with PyTorch and NVML.

    experiments/h200/clocks.py [--seconds 2]

One JSON line per mixture: the share of the time that products have, how long a product and a copy take in the first 30 ms (as in a profile)
and in the last half (as in training), the SM clock and the power at the end.
"""
import argparse
import json
import statistics
import time

import pynvml
import torch

SIZE = 8192
MIXTURES = [(10, 0), (6, 5), (3, 8), (2, 15), (0, 20)]  # products, copies of 1 GiB
FIRST = 0.03


def watch(handle):
    return {"sm_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "memory_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
            "watts": pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            "reasons": pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)}


def mixture(handle, products, copies, seconds, a, b, c, d):
    torch.cuda.synchronize()
    time.sleep(1.0)
    rounds, seen, begin = [], [], time.monotonic()
    while time.monotonic() - begin < seconds:
        events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        at = time.monotonic() - begin
        events[0].record()
        for _ in range(products):
            torch.mm(a, b, out=c)
        events[1].record()
        for _ in range(copies):
            d[1].copy_(d[0])
        events[2].record()
        rounds.append((at, events))
        if len(rounds) > 3:
            rounds[-3][1][2].synchronize()
        if len(rounds) % 10 == 0:
            seen.append((at, watch(handle)))
    energy = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    torch.cuda.synchronize()

    def median(part, count, first):
        chosen = [events[part].elapsed_time(events[part + 1]) for at, events in rounds if (at < FIRST if first else at > seconds / 2)]
        return statistics.median(chosen) * 1e-3 / count if count and chosen else None

    late = [state for at, state in seen if at > seconds / 2]
    return {"products": products, "copies": copies, "product_first_s": median(0, products, True), "product_late_s": median(0, products, False),
            "copy_first_s": median(1, copies, True), "copy_late_s": median(1, copies, False), "energy_mj": energy,
            **{key: statistics.median(state[key] for state in late) for key in ("sm_mhz", "memory_mhz", "watts", "reasons")}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    seconds = parser.parse_args().seconds
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    print(json.dumps({"idle": watch(handle), "limit_w": pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3}))
    d = torch.rand(2, 2**28, device="cuda")
    def uniform(low):
        return lambda: torch.empty(SIZE, SIZE, device="cuda").uniform_(low, 1.0)

    for numbers, of in ((uniform(0.5), "0.5 to 1"), (uniform(-1.0), "-1 to 1"), (lambda: torch.randn(SIZE, SIZE, device="cuda"), "normal")):
        a, b = (numbers().to(torch.bfloat16) for _ in range(2))
        c = torch.empty_like(a)
        for _ in range(3):
            torch.mm(a, b, out=c)
            d[1].copy_(d[0])
        for products, copies in MIXTURES if of == "normal" else MIXTURES[:1]:
            print(json.dumps({"numbers": of, **mixture(handle, products, copies, seconds, a, b, c, d)}), flush=True)


if __name__ == "__main__":
    main()
