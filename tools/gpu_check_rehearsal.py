# SPDX-License-Identifier: Apache-2.0
"""What stands in for a GPU, its tools and the programs that need one, when tools/gpu_check rehearses. Each answers
in the form of the real one."""

from gpu_check_stage import ROOT

SHELL = "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"

NVIDIA_SMI = SHELL + """echo 'NVIDIA H100 Rehearsal, 999.99, 81920 MiB, 9.0'
"""
NVCC = SHELL + """echo 'nvcc: NVIDIA (R) Cuda compiler driver'
echo 'Build rehearsal'
"""
# Runs the program, whose tests skip without a device, and sums up as the tool does.
COMPUTE_SANITIZER = SHELL + """[ "$1" = --tool ] || exit 2
tool=$2
while [ "${1#--}" != "$1" ]; do shift 2; done
echo '========= COMPUTE-SANITIZER'
"$@" || exit
case $tool in
  memcheck) echo '========= ERROR SUMMARY: 0 errors' ;;
  racecheck) echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)' ;;
  *) exit 2 ;;
esac
"""
CALIBRATE = SHELL + """[ "$1" = --output ] || exit 2
cp MACHINE_FILE "$2"
echo 'cpu.update_rate 1 Gparam/s'
"""
# One kernel that memory bounds and one that arithmetic bounds: their columns differ (bench/kernels_cuda.cpp).
KERNELS_CUDA = SHELL + """[ "$1 $2 $4 $6" = '--json --sizes --batch --context' ] || exit 2
echo '{"gpu": "NVIDIA H100 Rehearsal", "sizes": "'"$3"'", "sequences": '"$5"', "context": '"$7"', "type": "bf16",\
 "copy_gb_per_s": 3000.0, "product_gflop_per_s": 700000.0, "cases": ["gelu_forward", "attention_forward"]}'
[ "$8" = --from ] ||
echo '{"kernel": "gelu_forward", "ms": 0.07, "ms_least": 0.07, "ms_most": 0.08, "gb_per_s": 2600.0,\
 "of_limit": 0.87, "finite": true}'
echo '{"kernel": "attention_forward", "ms": 0.1, "ms_least": 0.1, "ms_most": 0.2, "gflop_per_s": 300000.0,\
 "of_limit": 0.43, "finite": true}'
"""
# Runs the program, as the real one does.
NCU = SHELL + """[ "$1 $2 $3 $4" = '--csv --page details --log-file' ] || exit 2
file=$5
shift 7
while [ "$1" = --section ]; do shift 2; done
"$@" > /dev/null || exit
echo '"ID","Kernel Name","Metric Name","Metric Value"' > "$file"
"""
# Without a plan of its own; steps that are real run the policies.
UPDATE_PHASE = SHELL + """[ "$1" = --here ] && [ "$2" = --machine ] && [ -s "$3" ] || exit 2
echo '{"machine": "rehearsed", "policy": "'"$5"'", "subgroup_params": 4000000, "gparams_per_s": 5.0,
"bound_gparams_per_s": 5.5, "fraction_of_bound": 0.91, "bytes_h2d": 2.5e9, "bytes_d2h": 2.5e9, "step_seconds": [0.2],
"binding": "cpu", "gpu_share": 0.3, "plan": "rehearsed", "obstacle": ""}'
"""
# Steps on a GPU: invented figures, after the real program has taken the options for a run without one. Other steps are
# real.
TRAIN_STEP = SHELL + """case " $* " in *' --cuda-devices 1 '*) ;; *) exec REAL_TRAIN_STEP "$@" ;; esac
case " $* " in *' --model gpt3-1.3b '*' --precision bf16 '*) ;; *) exit 2 ;; esac
for word; do
  shift
  case $word in --dry-run) is_dry=1 ;; 1) [ "$last" = --cuda-devices ] && word=0 ;; esac
  [ "$word" = --dry-run ] || set -- "$@" "$word"
  last=$word
done
REAL_TRAIN_STEP "$@" --dry-run > /dev/null || exit
if [ "$is_dry" ]; then
  echo '{"host": {"needed": 51500000000, "available": 120000000000},
"devices": [{"name": "CUDA 0", "needed": 39300000000, "available": 76500000000}]}'
  exit
fi
case $STARPU_SCHED in
  dos) ms=1800 gflop=460000 tokens=54000 share=0.6 states=2400000000 all=36100000000 ;;
  dos-stride | twinflow) ms=2000 gflop=414000 tokens=48600 share=0.4 states=2400000000 all=36100000000 ;;
  zero-offload) ms=2300 gflop=350000 tokens=42000 share=0 states=0 all=35900000000 ;;
  *) exit 2 ;;
esac
gradients=fp32
case " $* " in *' --gradient-precision bf16 '*) gradients=bf16 ;; esac
echo '{"model": "gpt3-1.3b", "parameters": 1315723264, "batch": 8, "accumulate": 6, "context": 2048,
"precision": "bf16", "gradient_precision": "'$gradients'", "gpu_attention": "rehearsed", "loss": 10.9, "ms_step": '$ms',
"ms_step_min": '$ms', "ms_step_max": '$ms', "ms_forward": 500,
"ms_backward": 1100, "ms_update": 700,
"gflop_per_s": '$gflop', "tokens_per_s": '$tokens', "updates": {"plan": "rehearsed", "obstacle": "",
"gpu_planned": '$share', "gpu_done": '$share'}, "device_memory": [{"name": "CUDA 0",
"weights": {"estimated": 2632000000, "allocated": 2632000000},
"gradients": {"estimated": 5263000000, "allocated": 5263000000},
"activations": {"estimated": 27756000000, "allocated": 27756000000},
"states": {"estimated": 0, "allocated": '$states'},
"work spaces": {"estimated": 43000000, "allocated": 90000000},
"beside StarPU": {"estimated": 0, "allocated": 159000000},
"all but states": {"estimated": 35694000000, "allocated": '$all'}}]}'
"""
# A Python with torch and DeepSpeed, of which one way does not start.
PYTHON_WITH_DEEPSPEED = SHELL + """if [ "$1" = -c ]; then
  echo '{"python": [3, 12], "torch": "2.11.0", "gpu": "NVIDIA H100 Rehearsal", "deepspeed": "0.19.8"}'
  exit
fi
[ "${1##*/} $2" = 'deepspeed_step.py --extension' ] && echo '{"extension": "cpu_adam", "seconds": 40.0}' && exit
[ "${1##*/} $2 $4 $5" = 'deepspeed_step.py --mode --model gpt3-1.3b' ] || exit 2
case $3 in
  superoffload) echo 'AssertionError: rehearsed' >&2; exit 1 ;;
  zero2) ms=2900 ;;
  *) ms=3000 ;;
esac
echo '{"mode": "'"$3"'", "deepspeed": "0.19.8", "torch": "2.11.0", "ms_step": '$ms', "ms_step_min": '$ms',
"ms_step_max": '$ms', "ms_update": 1200, "loss": 10.9, "peak_gpu_gb": 41.0}' | tr '\\n' ' '
"""


def stand_ins(folder, build):
    """Writes them into the folder and returns it. compute-sanitizer and the programs replace those of `build`."""
    folder.mkdir(parents=True, exist_ok=True)
    train_step = build / "bench/train_step"
    machine_file = ROOT / "perfmodels/machines/h100.toml"
    texts = {"nvidia-smi": NVIDIA_SMI, "nvcc": NVCC, "compute-sanitizer": COMPUTE_SANITIZER, "ncu": NCU,
             "calibrate": CALIBRATE.replace("MACHINE_FILE", str(machine_file)), "kernels_cuda": KERNELS_CUDA,
             "update_phase": UPDATE_PHASE, "python_with_deepspeed": PYTHON_WITH_DEEPSPEED,
             "train_step": TRAIN_STEP.replace("REAL_TRAIN_STEP", str(train_step))}
    if not train_step.exists():
        raise SystemExit(f"gpu_check: --rehearse {build} has no bench/train_step: build it first")
    for name, text in texts.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    return folder
