/* The load: keep-alive HTTP, so many connections at once, each of which asks again as soon as it was answered.

   load PORT CONNECTIONS SECONDS WARM_UP PID: one thread, one epoll. After WARM_UP seconds it counts for SECONDS, and prints as
   JSON the requests answered, the seconds that took, what the process PID used of the CPU meanwhile, how busy this one was, and
   how long an answer took (median and 99th percentile, in seconds). */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH 256
#define SLOTS 200000 /* of the histogram, 1 us each; the last one holds all that took longer */

static const char request[] = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: roamlet bench\r\nAccept: */*\r\n\r\n";

typedef struct {
    int64_t asked;
    size_t got;
} Connection;

static Connection *connections; /* by descriptor */
static unsigned histogram[SLOTS];
static size_t expected; /* the length of an answer, from the first one */

static void
fail(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double
seconds_of(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) < 0)
        fail("clock_gettime");
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void
ask(int fd)
{
    connections[fd].asked = now_ns();
    connections[fd].got = 0;
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)sizeof request - 1)
        fail("send");
}

/* Take what has come; whether that completes an answer. */
static bool
take(int fd)
{
    char buffer[65536];
    ssize_t got = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return false;
    if (got <= 0)
        fail("recv");
    if (connections[fd].got == 0 && (got < 15 || memcmp(buffer, "HTTP/1.1 200 OK", 15) != 0)) {
        fprintf(stderr, "load: the server answered: %.*s\n", (int)got, buffer);
        exit(1);
    }
    if (expected == 0) /* the server sends an answer in one piece, and they are all alike */
        expected = (size_t)got;
    connections[fd].got += (size_t)got;
    if (connections[fd].got > expected) {
        fprintf(stderr, "load: an answer of %zu bytes where %zu were expected\n", connections[fd].got, expected);
        exit(1);
    }
    return connections[fd].got == expected;
}

static long
run(int epoll, double seconds, bool counting)
{
    int64_t until = now_ns() + (int64_t)(seconds * 1e9);
    long answered = 0;
    while (now_ns() < until) {
        struct epoll_event events[BATCH];
        int count = epoll_wait(epoll, events, BATCH, 20000);
        if (count == 0) {
            fprintf(stderr, "load: the server has answered no connection for 20 s\n");
            exit(1);
        }
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (!take(fd))
                continue;
            if (counting) {
                int64_t us = (now_ns() - connections[fd].asked) / 1000;
                histogram[us < SLOTS ? us : SLOTS - 1]++;
                answered++;
            }
            ask(fd);
        }
    }
    return answered;
}

static double
percentile(long answered, double part)
{
    long left = (long)((double)answered * part);
    int slot = 0;
    while (slot < SLOTS - 1 && (left -= histogram[slot]) >= 0)
        slot++;
    return slot / 1e6;
}

int
main(int count, char **words)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int epoll = epoll_create1(0), many, one = 1;
    clockid_t server;
    if (count != 6) {
        fprintf(stderr, "load PORT CONNECTIONS SECONDS WARM_UP PID\n");
        return 2;
    }
    address.sin_port = htons((uint16_t)atoi(words[1]));
    many = atoi(words[2]);
    connections = calloc((size_t)many + 64, sizeof *connections);
    if ((errno = clock_getcpuclockid(atoi(words[5]), &server)) != 0)
        fail("clock_getcpuclockid");
    for (int i = 0; i < many; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || fd >= many + 64 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
            fail("connect");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
        ask(fd);
    }
    run(epoll, atof(words[4]), false);
    double used = seconds_of(server), own = seconds_of(CLOCK_PROCESS_CPUTIME_ID), begun = seconds_of(CLOCK_MONOTONIC);
    long answered = run(epoll, atof(words[3]), true);
    double elapsed = seconds_of(CLOCK_MONOTONIC) - begun;
    used = seconds_of(server) - used;
    own = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own;
    printf("{\"requests\": %ld, \"seconds\": %.6f, \"server_cpu\": %.6f, \"busy\": %.3f, \"median\": %.6f, \"p99\": %.6f}\n", answered, elapsed,
           used, own / elapsed, percentile(answered, 0.5), percentile(answered, 0.99));
    return 0;
}
