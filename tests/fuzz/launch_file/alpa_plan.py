p# Alpa 0.2: llama on 1 x 8 A100-SXM4-80GB
# global batch 32 in 4 micro-batches, bf16, recompute none
# predicted step: 8.309 ms, 985886 tokens/s, 4.652 TFLOPS per device (MFU 1.5 %)
# predicted memory: 62.5 MiB of 80.0 GiB per device
# Written by meshwright export; flags drift, so run it with the release named above.
"""The plan's stages for Alpa: `@alpa.parallelize(method=alpa_plan.method())`."""
from alpa import AutoLayerOption, ManualLayerOption, ManualStageOption, PipeshardParallel

BATCH, MICRO_BATCHES = 32, 4
SCHEDULE, DTYPE, RECOMPUTE = '1f1b', 'bf16', 'none'
OPTIMIZER = {'kind': 'adam', 'learning_rate': 0.001, 'weight_decay': 0.0, 'max_norm': 0.0, 'momentum': 0.9}
# The first operator of every layer, by the plan's names.
LAYER_STARTS = [
    'embed',
    'blk1.ln1',
    'blk2.ln1',
    'blk3.ln1',
    'blk4.ln1',
    'blk5.ln1',
    'blk6.ln1',
    'blk7.ln2',
]

STAGE_OPTION = ManualStageOption(
    forward_stage_layer_ids=[
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ],
    submesh_physical_shapes=[(1, 4), (1, 4)],
    submesh_logical_shapes=[(2, 2), (2, 2)],
    # Over which mesh axis the batch is split, where the plan splits it over one alone.
    submesh_autosharding_option_dicts=[{'force_batch_dim_to_mesh_dim': 0}, {'force_batch_dim_to_mesh_dim': 0}],
)


def method(marked=False):
    """`marked`: the model calls alpa.mark_pipeline_boundary() before every operator of LAYER_STARTS but the
    first, so that its layers are the plan's; else Alpa cuts it into as many layers of equal work."""
    layers = (
        ManualLayerOption(remat_layer=False)
        if marked
        else AutoLayerOption(layer_num=8, remat_mode="none")
    )
    return PipeshardParallel(
        num_micro_batches=4,
        pipeline_schedule="1f1b",
        layer_option=layers,
        stage_option=STAGE_OPTION,
    )
