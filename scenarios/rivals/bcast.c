/*
 * The MPI rivals' program: rank 0 reads LAB_FILE into memory and broadcasts it; every rank says when it has the whole
 * object, and then compares it with the file. Nothing is written to a file, and the start of processes is over before
 * the line `start`: both are in the rival's favour, and are said beside its results.
 *
 * Lines on stdout: `start` (rank 0), `complete RANK`, `took RANK SECONDS` (by the rank's own clock, since the barrier
 * before the broadcast), `verified RANK`.
 *
 * With LAB_ROUNDS above 0, that many broadcasts are made before, after one that does not count, each after a barrier; rank
 * 0 says `round SECONDS` for each, until the last rank has it by the machine's clock, which all share.
 *
 * LEAVE_UNFINISHED (MPICH): leave with _exit after the last barrier: MPI_Finalize was seen to hang over UCX TCP.
 */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* A count in MPI-3 is an int: objects above it travel in blocks that fit. */
#define LARGEST_CALL (1UL << 31)
#define BLOCK (1UL << 30)

static void fail(const char *what) {
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static const char *need(const char *name) {
    const char *value = getenv(name);
    if (value == NULL) {
        fprintf(stderr, "%s is not set: this program is started by the lab\n", name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return value;
}

/* One line in one write: the launchers mix what several ranks write piece by piece. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char line[128];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    if (write(STDOUT_FILENO, line, (size_t)length) != length) fail("cannot write to stdout");
}

/* The whole object, mapped for reading. */
static const char *map_object(size_t bytes) {
    int file = open(need("LAB_FILE"), O_RDONLY);
    if (file < 0) fail("cannot open LAB_FILE");
    void *object = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    if (object == MAP_FAILED) fail("cannot map LAB_FILE");
    close(file);
    return object;
}

static void broadcast(char *buffer, size_t bytes) {
    size_t step = bytes < LARGEST_CALL ? bytes : BLOCK;
    for (size_t offset = 0; offset < bytes; offset += step) {
        size_t count = bytes - offset < step ? bytes - offset : step;
        MPI_Bcast(buffer + offset, (int)count, MPI_BYTE, 0, MPI_COMM_WORLD);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void make_rounds(char *buffer, size_t bytes, int rank) {
    int rounds = atoi(need("LAB_ROUNDS"));
    for (int round = 0; rounds > 0 && round <= rounds; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = now();
        broadcast(buffer, bytes);
        double end = now(), last = 0;
        MPI_Reduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (rank == 0 && round > 0) say("round %.9f\n", last - begin);
    }
}

int main(int argc, char **argv) {
    /* A rank does not outlive the daemon that started it, however that one ends. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    size_t bytes = strtoull(need("LAB_BYTES"), NULL, 10);
    const char *object = map_object(bytes);
    char *buffer = malloc(bytes);
    if (buffer == NULL) fail("no memory for the object");
    /* Every page of the buffer is touched before the clock starts. */
    if (rank == 0)
        memcpy(buffer, object, bytes);
    else
        memset(buffer, 0, bytes);

    make_rounds(buffer, bytes, rank);
    if (rank != 0) memset(buffer, 0, bytes);

    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) say("start\n");
    double begin = MPI_Wtime();
    broadcast(buffer, bytes);
    double seconds = MPI_Wtime() - begin;
    say("complete %d\n", rank);
    say("took %d %.6f\n", rank, seconds);

    /* Comparing waits for the slowest rank: until then the processor belongs to those that still receive. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (memcmp(buffer, object, bytes) != 0) {
        fprintf(stderr, "rank %d: the copy differs from the object\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    say("verified %d\n", rank);
    MPI_Barrier(MPI_COMM_WORLD);
#ifdef LEAVE_UNFINISHED
    _exit(0);
#endif
    MPI_Finalize();
    return 0;
}
