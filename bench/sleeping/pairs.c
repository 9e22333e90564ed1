/* Two threads that hand a turn to each other and back, by one primitive of the system: pairs KIND CORES TURNS.
   Prints ns by the clock and ns of CPU of the process for each turn there and back. No Python: what is left when all else is free. */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    uint32_t word;
    sem_t semaphore;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    int descriptor;
} Turn;

static Turn turns[2];

static void
futex_give(Turn *turn)
{
    __atomic_store_n(&turn->word, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &turn->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void
futex_take(Turn *turn)
{
    while (__atomic_exchange_n(&turn->word, 0, __ATOMIC_ACQUIRE) == 0)
        syscall(SYS_futex, &turn->word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

/* With a time limit that is never reached: the kernel sets a timer for each wait. */
static void
timed_take(Turn *turn)
{
    struct timespec limit = {0, 50000000};
    while (__atomic_exchange_n(&turn->word, 0, __ATOMIC_ACQUIRE) == 0)
        syscall(SYS_futex, &turn->word, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0);
}

/* The limit is so near that it comes before the kernel's next tick: the machine's timer is set each time. */
static void
soon_take(Turn *turn)
{
    struct timespec limit = {0, 100000};
    while (__atomic_exchange_n(&turn->word, 0, __ATOMIC_ACQUIRE) == 0)
        syscall(SYS_futex, &turn->word, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0);
}

static void
semaphore_give(Turn *turn)
{
    sem_post(&turn->semaphore);
}

static void
semaphore_take(Turn *turn)
{
    while (sem_wait(&turn->semaphore) < 0 && errno == EINTR)
        ;
}

static void
condition_give(Turn *turn)
{
    pthread_mutex_lock(&turn->mutex);
    turn->word = 1;
    pthread_cond_signal(&turn->condition);
    pthread_mutex_unlock(&turn->mutex);
}

static void
condition_take(Turn *turn)
{
    pthread_mutex_lock(&turn->mutex);
    while (turn->word == 0)
        pthread_cond_wait(&turn->condition, &turn->mutex);
    turn->word = 0;
    pthread_mutex_unlock(&turn->mutex);
}

static void
eventfd_give(Turn *turn)
{
    uint64_t one = 1;
    if (write(turn->descriptor, &one, sizeof one) < 0)
        abort();
}

static void
eventfd_take(Turn *turn)
{
    uint64_t count;
    while (read(turn->descriptor, &count, sizeof count) < 0)
        if (errno != EINTR)
            abort();
}

static const struct {
    const char *name;
    void (*give)(Turn *);
    void (*take)(Turn *);
} kinds[] = {
    {"futex", futex_give, futex_take},
    {"futex_limit", futex_give, timed_take},
    {"futex_soon", futex_give, soon_take},
    {"semaphore", semaphore_give, semaphore_take},
    {"condition", condition_give, condition_take},
    {"eventfd", eventfd_give, eventfd_take},
};

static size_t kind;
static long count;

static void *
answers(void *unused)
{
    for (long i = 0; i < count; i++) {
        kinds[kind].take(&turns[0]);
        kinds[kind].give(&turns[1]);
    }
    return unused;
}

static double
seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int
main(int argc, char **argv)
{
    pthread_t other;
    cpu_set_t all, one;
    const size_t known = sizeof kinds / sizeof *kinds;
    while (argc == 4 && kind < known && strcmp(kinds[kind].name, argv[1]) != 0)
        kind++;
    if (argc != 4 || kind == known || (count = atol(argv[3])) <= 0) {
        fprintf(stderr, "usage: pairs futex|futex_limit|futex_soon|semaphore|condition|eventfd CORES TURNS\n");
        return 2;
    }
    if (atoi(argv[2]) == 1) {
        int first = 0;
        if (sched_getaffinity(0, sizeof all, &all) < 0)
            return 1;
        while (!CPU_ISSET(first, &all))
            first++;
        CPU_ZERO(&one);
        CPU_SET(first, &one);
        if (sched_setaffinity(0, sizeof one, &one) < 0)
            return 1;
    }
    for (int i = 0; i < 2; i++) {
        sem_init(&turns[i].semaphore, 0, 0);
        pthread_mutex_init(&turns[i].mutex, NULL);
        pthread_cond_init(&turns[i].condition, NULL);
        turns[i].descriptor = eventfd(0, EFD_CLOEXEC);
    }
    double clock = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (pthread_create(&other, NULL, answers, NULL) != 0)
        return 1;
    for (long i = 0; i < count; i++) {
        kinds[kind].give(&turns[0]);
        kinds[kind].take(&turns[1]);
    }
    pthread_join(other, NULL);
    printf("%.1f %.1f\n", (seconds(CLOCK_MONOTONIC) - clock) / (double)count * 1e9,
           (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (double)count * 1e9);
    return 0;
}
