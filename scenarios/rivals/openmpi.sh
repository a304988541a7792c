#!/bin/sh
# Open MPI's MPI_Bcast.
#
#   openmpi.sh prepare                  builds the program into $LAB_BUILD
#   openmpi.sh run                      broadcasts; the library chooses the algorithm
#   openmpi.sh run ALGORITHM SEGMENT    with this number of coll_tuned_bcast_algorithm, in segments of so many bytes
# Programs are called by Debian's full names, since `mpirun` may be MPICH's.
set -u
. ./mpi_common.sh

run() {
    mkdir -p "$mpi_dir"
    mpi_hosts ' slots=1' >"$mpi_dir/hosts"
    # One "node" is a namespace: all of them see the same cores, so that binding would put every rank on the first.
    set -- "$@" --allow-run-as-root --bind-to none -np "$LAB_NODES" --hostfile "$mpi_dir/hosts"
    # Payload and control over TCP on the emulated network alone.
    set -- "$@" --mca pml ob1 --mca btl tcp,self \
        --mca btl_tcp_if_include "$LAB_INTERFACE" --mca oob_tcp_if_include "$LAB_INTERFACE"
    # The daemons: started by the launcher itself, in the foreground, and each answers it directly, so that a rank's
    # line takes one hop.
    set -- "$@" --leave-session-attached --mca routed direct --mca plm_rsh_no_tree_spawn 1 \
        --mca plm_rsh_agent "$PWD/rsh_agent.sh" --mca plm_rsh_num_concurrent 256
    if mpi_ranks_exceed_cores; then
        set -- "$@" --mca mpi_yield_when_idle 1 -x "LD_PRELOAD=$build_dir/idle.so"
    fi
    TMPDIR=$mpi_dir mpi_launch mpirun.openmpi "$@" "$build_dir/bcast-openmpi"
}

case ${1-} in
prepare)
    set -e
    mpi_build mpicc.openmpi bcast-openmpi
    ;;
run)
    shift
    if [ $# -eq 2 ]; then
        set -- --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_bcast_algorithm "$1" \
            --mca coll_tuned_bcast_algorithm_segmentsize "$2"
    fi
    run "$@"
    ;;
*)
    echo "usage: openmpi.sh prepare | run [ALGORITHM SEGMENT]" >&2
    exit 2
    ;;
esac
