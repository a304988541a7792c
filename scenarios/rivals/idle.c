/*
 * Preloaded into MPI ranks when there are more of them than cores: a rank that asks for events without waiting, and
 * finds none, sleeps for 50 microseconds (about 100 with the kernel's slack for timers). Ranks busy-wait by design,
 * each for a core of its own; many on few cores would measure the scheduler. In 100 microseconds a link of 100 MB/s
 * brings 10 kB, which a socket's buffer holds by far; waiting for the event itself wakes ranks more often, for less
 * each time, and costs more.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <sys/epoll.h>
#include <time.h>

static void idle(void) {
    struct timespec pause = {.tv_sec = 0, .tv_nsec = 50000};
    nanosleep(&pause, NULL);
}

int poll(struct pollfd *fds, nfds_t count, int timeout) {
    static int (*real)(struct pollfd *, nfds_t, int);
    if (real == NULL) real = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
    int found = real(fds, count, timeout);
    if (found == 0 && timeout == 0) idle();
    return found;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout) {
    static int (*real)(int, struct epoll_event *, int, int);
    if (real == NULL) real = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    int found = real(epoll, events, most, timeout);
    if (found == 0 && timeout == 0) idle();
    return found;
}
