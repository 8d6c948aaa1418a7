# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the batch scripts share. Slurm runs a copy of a script from its spool folder: root, the sources or the files of
# an installation, is DOS_ROOT, where sbatch was called, or where the script lies.

# script_name: of who has read this file; Slurm gives its copies another one.
fail() {
  printf '%s: error: %s\n' "${script_name:-${0##*/}}" "$1" >&2
  exit 1
}

# Sets programs, their folder, and checks what a site file must have set.
read_site() {
  [[ -n ${DOS_SITE-} ]] || fail 'DOS_SITE is not set: source a file of slurm/sites before sbatch (slurm/README.md)'
  [[ -n ${DOS_RANKS_PER_NODE-} && -n ${DOS_CORES_PER_RANK-} ]] ||
    fail "$DOS_SITE.env must set DOS_RANKS_PER_NODE and DOS_CORES_PER_RANK (slurm/README.md)"
  : "${root:?the batch script sets it}"
  programs=$root/build/release/apps
  [[ $root != */share/deep-optimizer-states ]] || programs=${root%/share/*}/bin
  [[ -z ${DOS_BUILD-} ]] || programs=$DOS_BUILD/apps
  [[ -x $programs/train_gpt ]] || fail "no $programs/train_gpt: build before the job (README.md), or set DOS_BUILD"
}

# The same in a job.
open_site() {
  [[ -n ${SLURM_JOB_ID-} ]] || fail 'this is no job of Slurm: start this script with sbatch'
  read_site
}

# ranks COMMAND...: runs it on all ranks of the job.
ranks() {
  srun --mpi="${DOS_SRUN_MPI:-pmi2}" --kill-on-bad-exit=1 --nodes="$SLURM_JOB_NUM_NODES" \
    --ntasks-per-node="$DOS_RANKS_PER_NODE" --cpus-per-task="$DOS_CORES_PER_RANK" "$@"
}

# once COMMAND...: one task with the cores of a node's ranks.
once() {
  srun --nodes=1 --ntasks=1 --cpus-per-task="$((DOS_RANKS_PER_NODE * DOS_CORES_PER_RANK))" "$@"
}

# provenance FOLDER COMMAND...: where results come from, in FOLDER/slurm/<job>-<restart>; a failing part is no reason
# to lose the job.
provenance() {
  local folder=$1/slurm/$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}
  shift
  mkdir -p "$folder"
  printf '%q ' "$@" >"$folder/command"
  {
    git -C "$root" describe --always --dirty --tags
    git -C "$root" diff HEAD
  } >"$folder/revision" 2>&1 || true
  env | grep -E '^(DOS|SLURM|SBATCH|STARPU|MPICH|UCX|CUDA|LOADEDMODULES)' | sort >"$folder/environment" || true
  scontrol show job "$SLURM_JOB_ID" >"$folder/job" 2>&1 || true
  cp "$root/slurm/sites/$DOS_SITE.env" "$folder/" 2>/dev/null || true
  "$programs/train_gpt" --version >"$folder/version" 2>&1 || true
  ranks "$programs/train_gpt" --print-topology >"$folder/topology" 2>&1 || true
  if command -v lstopo-no-graphics >/dev/null; then once lstopo-no-graphics --of xml >"$folder/lstopo.xml" || true; fi
  if command -v nvidia-smi >/dev/null; then once nvidia-smi -q >"$folder/nvidia-smi" 2>&1 || true; fi
}
