// SPDX-License-Identifier: Apache-2.0
#include "launch/write/launcher_files.h"

#include "launch/write/script.h"

namespace meshwright {

namespace {

std::string setting_lines(const std::vector<HostScript::Setting>& settings) {
  std::string text;
  for (const HostScript::Setting& setting : settings)
    text += fmt::format("{0}=${{{0}:-{1}}}  # {2}\n", setting.name, setting.otherwise, setting.about);
  return text;
}

LaunchFile host_script(const LaunchJob& job, const HostScript& script) {
  const LaunchSetup& setup = job.setup;
  std::vector<HostScript::Setting> settings = script.site;
  std::string text = "#!/bin/bash\n" + commented(heading(job));
  if (!script.starts_all_hosts) {
    settings.push_back({"NNODES", "hosts of the job", fmt::format("{}", setup.hosts)});
    settings.push_back({"GPUS_PER_NODE", "devices of each host", fmt::format("{}", setup.devices_per_host)});
    settings.push_back({"NODE_RANK", "number of this host, from 0", "0"});
    settings.push_back({"MASTER_ADDR", "name or address of host 0", "localhost"});
    settings.push_back({"MASTER_PORT", "a free port of host 0", "29500"});
    if (job.launcher == Launcher::Torchrun && setup.hosts > 1)
      text += fmt::format(
          "#\n# Run it on each of the {} hosts: NODE_RANK=0 MASTER_ADDR=host0 bash run.sh, and so on.\n", setup.hosts);
  }
  text += "set -euo pipefail\ncd \"$(dirname \"${BASH_SOURCE[0]}\")\"\n\n";
  text += "# --- the site: change these, or set them in the environment ---\n" + setting_lines(settings) + "\n";
  for (const auto& [name, value] : script.environment) text += fmt::format("export {}={}\n", name, value);
  if (!script.environment.empty()) text += "\n";
  text += script.arguments + script.command;
  return {"run.sh", text, true, script.starts_all_hosts ? "starts the job" : "starts the processes of one host"};
}

LaunchFile slurm(const LaunchJob& job) {
  const LaunchSetup& setup = job.setup;
  std::string text = "#!/bin/bash\n";
  text += "# --- the site: change these ---\n#SBATCH --account=ACCOUNT\n#SBATCH --partition=PARTITION\n";
  text += "#SBATCH --time=00:30:00\n";
  text += fmt::format("#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=1\n", job_name(setup),
                      setup.hosts);
  text +=
      fmt::format("#SBATCH --gres=gpu:{}\n#SBATCH --exclusive\n#SBATCH --output=%x-%j.log\n", setup.devices_per_host);
  text += commented(heading(job));
  text += "set -euo pipefail\n\n";
  text += "# The folder of run.sh; Slurm runs a copy of this script elsewhere.\nDIR=${DIR:-$SLURM_SUBMIT_DIR}\n";
  text += "CONTAINER=${CONTAINER:-}  # an image for pyxis; empty: no container\n\n";
  text += "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n1)\nexport MASTER_ADDR\n";
  text += "export NNODES=$SLURM_NNODES\n\n";
  text += "SRUN_ARGS=(--kill-on-bad-exit=1)\n";
  text += "[[ -n \"$CONTAINER\" ]] && SRUN_ARGS+=(--container-image \"$CONTAINER\" --container-mounts \"$DIR:$DIR\")\n";
  text += "# The rank expands on its own host.\n";
  text += "srun \"${SRUN_ARGS[@]}\" bash -c \"NODE_RANK=\\$SLURM_PROCID exec bash '$DIR/run.sh'\"\n";
  return {"job.sbatch", text, true, "submits the job: `sbatch job.sbatch` in this folder"};
}

LaunchFile mpi(const LaunchJob& job) {
  const LaunchSetup& setup = job.setup;
  std::string text = "#!/bin/bash\n" + commented(heading(job)) + "set -euo pipefail\n";
  text += "cd \"$(dirname \"${BASH_SOURCE[0]}\")\"\n\n";
  text += "# --- the site: change these, or set them in the environment ---\n";
  text += fmt::format("HOSTFILE=${{HOSTFILE:-hostfile}}  # a line \"host slots=1\" for each of the {} hosts\n",
                      setup.hosts);
  text += fmt::format("NNODES=${{NNODES:-{}}}\n\n", setup.hosts);
  text += "MASTER_ADDR=$(awk 'NF && $1 !~ /^#/ {print $1; exit}' \"$HOSTFILE\")\nexport MASTER_ADDR NNODES\n";
  text += "# One MPI process per host; run.sh starts one per device. This is Open MPI's command line.\n";
  text += "mpirun -np \"$NNODES\" --hostfile \"$HOSTFILE\" --map-by ppr:1:node -x MASTER_ADDR -x NNODES -x PATH \\\n";
  text += "  bash -c 'NODE_RANK=$OMPI_COMM_WORLD_RANK exec bash run.sh'\n";
  return {"mpirun.sh", text, true, "starts run.sh on every host of `hostfile`"};
}

LaunchFile kubernetes(const LaunchJob& job, const LaunchFile& run, const std::vector<LaunchFile>& others) {
  const LaunchSetup& setup = job.setup;
  std::string name = job_name(setup);
  for (char& c : name)
    if (c == '.') c = '-';
  std::string text = commented(heading(job));
  text += "# --- the site: change IMAGE, the namespace, and what is mounted ---\n";
  text += "# `kubectl apply -f trainjob.yaml`; the runtime torch-distributed is of Kubeflow Trainer 2.\n";
  text +=
      fmt::format("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}-files\n  namespace: default\ndata:\n", name);
  for (const LaunchFile* file : [&] {
         std::vector<const LaunchFile*> all = {&run};
         for (const LaunchFile& other : others) all.push_back(&other);
         return all;
       }())
    text += fmt::format("  {}: |\n{}", file->name, indented(file->text, 4));
  text += "---\napiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n";
  text += fmt::format(
      "metadata:\n  name: {0}\n  namespace: default\nspec:\n  runtimeRef:\n    name: torch-distributed\n", name);
  text += fmt::format("  trainer:\n    image: IMAGE\n    numNodes: {}\n    numProcPerNode: {}\n", setup.hosts,
                      setup.devices_per_host);
  text += "    command:\n    - bash\n    - -c\n";
  text += "    # run.sh is copied, as a ConfigMap cannot be written to. Trainer sets the PET_ variables.\n";
  text +=
      "    - |\n      cp -rL /meshwright /tmp/job && NNODES=$PET_NNODES NODE_RANK=$PET_NODE_RANK "
      "MASTER_ADDR=$PET_MASTER_ADDR MASTER_PORT=$PET_MASTER_PORT exec bash /tmp/job/run.sh\n";
  text += fmt::format("    resourcesPerNode:\n      limits:\n        nvidia.com/gpu: {}\n", setup.devices_per_host);
  text += "  podTemplateOverrides:\n  - targetJobs:\n    - name: node\n    spec:\n      volumes:\n";
  text += fmt::format("      - name: files\n        configMap:\n          name: {}-files\n", name);
  text += "      containers:\n      - name: node\n        volumeMounts:\n        - name: files\n";
  text += "          mountPath: /meshwright\n";
  return {"trainjob.yaml", text, false, "the job for Kubeflow Trainer: `kubectl apply -f trainjob.yaml`"};
}

}  // namespace

std::string torchrun_command(const std::string& program) {
  return "torchrun --nnodes \"$NNODES\" --nproc-per-node \"$GPUS_PER_NODE\" --node-rank \"$NODE_RANK\" \\\n"
         "  --master-addr \"$MASTER_ADDR\" --master-port \"$MASTER_PORT\" \\\n  " +
         program + "\n";
}

std::vector<LaunchFile> launcher_files(const LaunchJob& job, const HostScript& script,
                                       const std::vector<LaunchFile>& others) {
  std::vector<LaunchFile> files = {host_script(job, script)};
  switch (job.launcher) {
    case Launcher::Torchrun:
      break;
    case Launcher::Slurm:
      files.push_back(slurm(job));
      break;
    case Launcher::Mpi:
      files.push_back(mpi(job));
      break;
    case Launcher::Kubernetes:
      files.push_back(kubernetes(job, files.front(), others));
      break;
  }
  return files;
}

}  // namespace meshwright
