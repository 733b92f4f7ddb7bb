#!/usr/bin/env bash
# A SLURM cluster of two nodes on this machine, for as long as a command runs:
#
#   sudo tests/campaigns/slurm.sh .venv/bin/pytest tests/campaigns/test_slurm.py
#
# It needs root, for SLURM starts jobs of any user, and on Debian or Ubuntu
#   apt-get install --no-install-recommends slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins
# /etc/slurm/slurm.conf is written and removed; a cluster that is already there is left alone.
set -euo pipefail

fail() { echo "slurm.sh: $*" >&2; exit 2; }

[ $# -gt 0 ] || fail "which command shall run on the cluster?"
[ "$(id -u)" = 0 ] || fail "run it as root"
for program in slurmctld slurmd srun munged; do
    command -v $program >/dev/null || fail "$program is missing; install the packages named in $0"
done
# The one place where jobs look: the executor takes SLURM_CONF from their environment.
conf=/etc/slurm/slurm.conf
[ ! -e $conf ] || fail "$conf exists: this machine belongs to a cluster"

host=$(hostname -s)
scratch=$(mktemp -d)
export PLFL_SLURM=$scratch
own_munge=

# End daemons, given by their PID files, and wait until they are gone.
end() {
    local file pid
    for file in "$@"; do
        [ -e "$file" ] || continue
        pid=$(cat "$file")
        kill "$pid" 2>/dev/null || continue
        for _ in $(seq 100); do
            case $(ps -o stat= -p "$pid") in "" | Z*) break ;; esac
            sleep 0.1
        done
    done
}

stop() {
    scancel --state=RUNNING 2>/dev/null || true
    scancel --state=PENDING 2>/dev/null || true
    sleep 2
    end "$scratch"/*.pid
    [ -z "$own_munge" ] || end /run/munge/munged.pid
    rm -rf "$conf" "$scratch"
}
trap stop EXIT

mkdir -p /etc/slurm "$scratch"/{state,node1,node2}
cat >$conf <<EOF
ClusterName=plfl-test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/%n
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/%n.pid
SlurmctldLogFile=$scratch/slurmctld.log
SlurmdLogFile=$scratch/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1000
AccountingStorageType=accounting_storage/none
# A job that takes more memory than it asked for is killed within a second.
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
# A node that is silent for ten seconds is down.
SlurmdTimeout=10
ReturnToService=2
# The tests look at jobs that finished long ago, if the machine is a busy one.
MinJobAge=7200
SlurmdParameters=config_overrides
NodeName=node1 NodeHostname=$host NodeAddr=127.0.0.1 Port=17001 CPUs=2 RealMemory=8000
NodeName=node2 NodeHostname=$host NodeAddr=127.0.0.1 Port=17002 CPUs=2 RealMemory=8000
PartitionName=test Nodes=node1,node2 Default=YES MaxTime=01:00:00 State=UP
EOF

if ! munge --no-input >/dev/null 2>&1; then
    mkdir -p /run/munge
    chown munge: /run/munge
    runuser -u munge -- "$(command -v munged)"
    own_munge=yes
fi
slurmctld
slurmd -N node1
slurmd -N node2
for _ in $(seq 60); do
    [ "$(sinfo --noheader --Node --states=idle 2>/dev/null | wc -l)" = 2 ] && break
    sleep 0.5
done
sinfo

"$@"
