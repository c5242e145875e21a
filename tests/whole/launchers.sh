#!/bin/sh
# usage: tests/whole/launchers.sh BUILD   (called by `make test`)
# Many processes of a batch with refused records, begun by Open MPI and by Slurm, as installed: the job of docs/batch.md as it is
# written there, a stop and its requeue included. Skipped without what scripts/deps --slurm installs, or without root, whom slurmd needs.
set -u
build=$(realpath "$1")
. tests/whole/expect.sh
dir=$(mktemp -d) daemons=
end() {
    for pid in $daemons; do kill "$pid" 2>/dev/null; done
    wait
    rm -rf "$dir"
}
trap end EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL
mkdir "$dir/work" "$dir/state" "$dir/spool"
make install PREFIX="$dir/usr" B="$build" PROGRAMS="$build/opt4gptq-run $build/opt4gptq-convert $build/opt4gptq-quantize $build/opt4gptq-bench" \
    -o "$build/opt4gptq-run" -o "$build/opt4gptq-convert" -o "$build/opt4gptq-quantize" -o "$build/opt4gptq-bench" >"$dir/out" 2>&1 || cat "$dir/out"
export PATH="$dir/usr/bin:$PATH"
opt4gptq-convert -q models/demo "$dir/work/model.safetensors" || exit 2
awk '/^#!\/bin\/sh$/ { on = 1 } /^```$/ { on = 0 } on' docs/batch.md >"$dir/job"
cd "$dir/work" || exit 2
# of two shards the first is short and has a refused record, the second one is long
awk 'BEGIN { for (i = 0; i < 80; i++) {
    n = i % 2 ? 200 : 1
    temperature = i == 0 || i == 3 ? 1000 : 0
    printf "{\"custom_id\":\"%d\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"The king %d\",\"max_tokens\":%d,\"ignore_eos\":true,\"temperature\":%d}}\n", i, i, n, temperature } }' >prompts.jsonl
opt4gptq-run -m model.safetensors -i prompts.jsonl -o whole.jsonl -t 1 2>whole.err
expect "one process ends with 3" test $? = 3
refused() { [ "$(grep -c '"status_code":400' "$1")" = 2 ]; }

if ! command -v mpirun >/dev/null; then
    skip "Open MPI: no mpirun (scripts/deps --slurm)"
else
    mpi() { OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 300 mpirun --oversubscribe --bind-to none -np 2 \
        opt4gptq-run -m model.safetensors -i prompts.jsonl -o mpi.jsonl --shard auto -t 1; }
    expect "mpirun ends well although a record was refused" mpi
    expect "the same command again, too" mpi
    expect "its shards are merged" sh -c 'opt4gptq-merge-shards mpi.jsonl | grep -q "80 records of 2 shards, 2 of them refused"'
    expect "the bytes of one process" cmp mpi.jsonl whole.jsonl
    if [ -e "$build/tests/bin/libhip-fibers.so" ]; then
        head -n 4 prompts.jsonl | tail -n 2 | sed 's/"max_tokens":200/"max_tokens":1/' >two.jsonl
        cards() { FIBERS_DEVICES=2 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 300 mpirun --oversubscribe \
            --bind-to none -np 2 opt4gptq-run -m model.safetensors -i two.jsonl -o cards.jsonl --shard auto -c 64 --same-bits \
            --hip-library "$build/tests/bin/libhip-fibers.so" 2>cards.err; }
        expect "two processes on a machine with two GPUs" cards
        expect "each takes one of them" sh -c 'grep -q "process 1 of 2 .* takes GPU 0" cards.err && grep -q "process 2 of 2 .* takes GPU 1" cards.err'
    fi
fi

for p in slurmctld slurmd srun sbatch munged; do command -v $p >/dev/null || lacks=$p; done
[ "$(id -u)" = 0 ] || lacks="root"
if [ "${lacks:-}" ]; then
    skip "Slurm: no $lacks (scripts/deps --slurm)"
    echo "launchers: $passed passed, $failed failed, $skipped skipped"
    exit 0
fi
host=$(hostname) port=$((20000 + $$ % 20000))
export SLURM_CONF="$dir/slurm.conf"
cat >"$SLURM_CONF" <<EOF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
CryptoType=crypto/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/ctld.pid
SlurmdPidFile=$dir/d.pid
SlurmctldLogFile=$dir/ctld.log
SlurmdLogFile=$dir/d.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MinJobAge=300
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
EOF
dd if=/dev/urandom of="$dir/key" bs=128 count=1 2>/dev/null
chmod 600 "$dir/key"
chmod 755 "$dir"
munged --foreground --force --key-file="$dir/key" --socket="$dir/munge.socket" --pid-file="$dir/munge.pid" \
    --log-file="$dir/munge.log" --seed-file="$dir/munge.seed" >"$dir/munged.out" 2>&1 &
daemons=$!
await() { # COMMAND..: until it holds, for some minutes at most
    n=0
    until "$@" >/dev/null 2>&1; do
        n=$((n + 1))
        [ $n -lt 1800 ] || return 1
        sleep 0.1
    done
}
await test -S "$dir/munge.socket"
slurmctld -D -f "$SLURM_CONF" >"$dir/ctld.out" 2>&1 &
daemons="$daemons $!"
slurmd -D -f "$SLURM_CONF" >"$dir/d.out" 2>&1 &
daemons="$daemons $!"
is_idle() { sinfo -h -o %T | grep -q idle; }
if ! await is_idle; then
    skip "Slurm: its daemons do not start here: $(tail -n 1 "$dir/ctld.log" "$dir/d.log" 2>&1 | tail -n 1)"
    echo "launchers: $passed passed, $failed failed, $skipped skipped"
    exit 0
fi
state() { scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'; }
is_over() { case $(state "$1") in PENDING | RUNNING | COMPLETING | CONFIGURING | REQUEUED | SUSPENDED) return 1 ;; esac; }
# the script as it is written, for a smaller machine and a limit of its own
submit() { sbatch --parsable --ntasks=2 --cpus-per-task=1 "$@" --output="$dir/work/job.out" "$dir/job"; }

job=$(submit --time=10)
expect "the job of the document ends" await is_over "$job"
expect "well, although records were refused" test "$(state "$job")" = COMPLETED
expect "its shards are merged" grep -q "80 records of 2 shards, 2 of them refused" job.out
expect "the bytes of one process" cmp answers.jsonl whole.jsonl
[ $failed = 0 ] || cat job.out

if [ -e "$build/tests/bin/libhip-fibers.so" ]; then
    cards() { rm -f cards.jsonl*; FIBERS_DEVICES=2 timeout 300 srun --ntasks=2 opt4gptq-run -m model.safetensors -i prompts.jsonl \
        -o cards.jsonl --shard auto -c 64 --check --hip-library "$build/tests/bin/libhip-fibers.so" >cards.err 2>&1; }
    cards
    expect "of Slurm's tasks on a machine each takes a GPU" \
        sh -c 'grep -q "process 1 of 2 .* takes GPU 0" cards.err && grep -q "process 2 of 2 .* takes GPU 1" cards.err'
fi

# a stop as the limit's: the step gets SIGTERM, the job is requeued and ends what is left
rm -f answers.jsonl*
sed -i 's/"max_tokens":200/"max_tokens":900/' prompts.jsonl
opt4gptq-run -m model.safetensors -i prompts.jsonl -o long.jsonl -t 1 2>/dev/null
job=$(submit --time=10)
has_begun() { grep -q custom_id answers.jsonl.1-of-2.journal; }
expect "a job begins" await has_begun
scancel --signal=TERM "$job"
is_requeued() { scontrol show job "$job" | grep -q Restarts=1; }
expect "its answers are not all there, so it is requeued" await is_requeued
# not some minutes later, but when all of the first start is gone: slurmd takes no start of the second in which it killed one
is_gone() { ! squeue -h -o %T --states=all -j "$job" | grep -q COMPLETING; }
await is_gone
sleep 2
scontrol update JobId="$job" StartTime=now
expect "a job that was stopped ends all the same" await is_over "$job"
expect "well" test "$(state "$job")" = COMPLETED
expect "the bytes of one process" cmp answers.jsonl long.jsonl
[ $failed = 0 ] || { cat job.out; scontrol show job "$job"; tail -n 5 "$dir/ctld.log" "$dir/d.log"; }
echo "launchers: $passed passed, $failed failed, $skipped skipped"
