/* The internet between the offices of a lab: one process that owns the far end of each WAN device and passes IPv4 packets on by their
   destination, late by a set delay, through one queue for each device; so it never changes the order of packets.

     relay SOCKET ROUTER NAME:PID:DEVICE:ADDRESS...

   makes DEVICE, a TUN device, in the network namespace of process PID, and takes packets for ADDRESS to it. Whoever connects to
   SOCKET (SOCK_SEQPACKET) sends one command a message, and gets one answer each: "ok", or JSON, or "error: ...":
     delay US | rate MBIT | queue BYTES | loss PPM | seed N        for all; rate 0: as fast as it goes
     up NAME | down NAME | address NAME IP | mtu NAME BYTES | blackhole NAME 0/1        for one
     stats
   Packets keep the kernel's offloads (one packet may stand for 44 on the wire), except while packets are to be lost. ROUTER is the
   address that "fragmentation needed" comes from. */
#define _GNU_SOURCE
#include "packet.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

enum { MOST_PORTS = 40, MOST_CLIENTS = 8, AT_ONCE = 64, DEVICE_QUEUE = 20000 };

typedef struct packet {
    struct packet *next;
    uint64_t due;
    int size;
    unsigned char bytes[];
} packet;

typedef struct {
    char name[64], device[IFNAMSIZ];
    int fd, down, mtu, blackhole;
    uint32_t address;
    packet *head, **tail;
    long queued;      /* bytes */
    uint64_t free_at; /* when the line will have sent what it has, at the set rate */
    unsigned long taken, passed, lost, crowded_out, nowhere, too_large;
} port;

static port ports[MOST_PORTS];
static int count;
static uint64_t delay = 40000000; /* ns, one way */
static double rate;               /* Mbit/s; 0: no limit */
static long queue_limit = 64l << 20;
static unsigned loss; /* of a million */
static uint32_t router;

static void
die(const char *what)
{
    fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Whether the kernel may hand over many packets as one. Not while some are to be lost: one would stand for all. */
static void
set_offloads(int on)
{
    unsigned all = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
    for (int i = 0; i < count; i++) {
        if (!on) {
            ioctl(ports[i].fd, TUNSETOFFLOAD, 0);
        } else if (ioctl(ports[i].fd, TUNSETOFFLOAD, all | TUN_F_USO4 | TUN_F_USO6) != 0) {
            ioctl(ports[i].fd, TUNSETOFFLOAD, all); /* before Linux 6.2 */
        }
    }
}

static void
open_port(const char *words)
{
    port *p = &ports[count];
    char pid[16], address[INET_ADDRSTRLEN], path[64];
    if (count == MOST_PORTS || sscanf(words, "%63[^:]:%15[^:]:%15[^:]:%15s", p->name, pid, p->device, address) != 4 ||
        inet_pton(AF_INET, address, &p->address) != 1) {
        fprintf(stderr, "relay: not NAME:PID:DEVICE:ADDRESS, or too many: %s\n", words);
        exit(2);
    }
    snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) {
        die(path);
    }
    close(space);
    p->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (p->fd < 0) {
        die("/dev/net/tun");
    }
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    memcpy(request.ifr_name, p->device, IFNAMSIZ);
    if (ioctl(p->fd, TUNSETIFF, &request) != 0) {
        die(words);
    }
    int size = VNET;
    ioctl(p->fd, TUNSETVNETHDRSZ, &size);
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    request.ifr_qlen = DEVICE_QUEUE;
    ioctl(any, SIOCSIFTXQLEN, &request);
    close(any);
    p->mtu = 1500;
    p->tail = &p->head;
    count++;
}

/* Puts a copy of the packet into the queue of `to`. */
static void
put(port *to, const unsigned char *buffer, int size)
{
    if (to->queued + size > queue_limit) {
        to->crowded_out++;
        return;
    }
    uint64_t sent = now();
    if (rate > 0) {
        if (to->free_at > sent) {
            sent = to->free_at;
        }
        sent += (uint64_t)((size - VNET) * 8000.0 / rate);
        to->free_at = sent;
    }
    packet *made = malloc(sizeof *made + (size_t)size);
    if (made == NULL) {
        to->crowded_out++;
        return;
    }
    *made = (packet){.due = sent + delay, .size = size};
    memcpy(made->bytes, buffer, (size_t)size);
    *to->tail = made;
    to->tail = &made->next;
    to->queued += size;
}

/* A packet that is larger than what the link to `to` takes: it is cut up, or its sender is told, or it is dropped silently. */
static void
too_large(port *from, port *to, unsigned char *buffer, int size)
{
    static unsigned char other[LARGEST];
    struct virtio_net_hdr header;
    memcpy(&header, buffer, VNET);
    if (may_not_be_cut(buffer) || header.gso_type != VIRTIO_NET_HDR_GSO_NONE) {
        to->too_large++;
        int answer = to->blackhole ? 0 : fragmentation_needed(buffer, size, router, to->mtu, other);
        if (answer) {
            put(from, other, answer);
        }
        return;
    }
    finish_checksum(buffer, size);
    int all = read16(buffer + VNET + 2) - (buffer[VNET] & 15) * 4;
    for (int done = 0; done < all;) {
        put(to, other, next_fragment(buffer, &done, to->mtu, other));
    }
}

static void
take(port *from)
{
    static unsigned char buffer[LARGEST];
    for (int i = 0; i < AT_ONCE; i++) {
        int size = (int)read(from->fd, buffer, sizeof buffer);
        if (size <= 0) {
            return;
        }
        if (size <= VNET || !is_ipv4(buffer, size)) {
            continue;
        }
        from->taken++;
        port *to = NULL;
        uint32_t destination = destination_of(buffer);
        for (int j = 0; j < count; j++) {
            if (ports[j].address == destination) {
                to = &ports[j];
            }
        }
        if (to == NULL || from->down || to->down) {
            from->nowhere++;
        } else if (loss && (unsigned)(random() % 1000000) < loss) {
            to->lost++;
        } else if (length_on_wire(buffer, size) > to->mtu) {
            too_large(from, to, buffer, size);
        } else {
            put(to, buffer, size);
        }
    }
}

/* Hands over what is due; returns when the next packet is due, 0 for no packet. */
static uint64_t
deliver(void)
{
    uint64_t time = now(), next = 0;
    for (int i = 0; i < count; i++) {
        port *p = &ports[i];
        while (p->head && p->head->due <= time) {
            packet *first = p->head;
            if (p->down || write(p->fd, first->bytes, (size_t)first->size) < 0) {
                p->nowhere++;
            } else {
                p->passed++;
            }
            p->head = first->next;
            if (p->head == NULL) {
                p->tail = &p->head;
            }
            p->queued -= first->size;
            free(first);
        }
        if (p->head && (next == 0 || p->head->due < next)) {
            next = p->head->due;
        }
    }
    return next;
}

static void
say_stats(char *answer, size_t room)
{
    size_t used = (size_t)snprintf(answer, room, "{\"delay_us\": %llu, \"rate_mbit\": %g, \"queue_bytes\": %ld, \"loss_ppm\": %u, \"ports\": [",
                                   (unsigned long long)(delay / 1000), rate, queue_limit, loss);
    for (int i = 0; i < count && used < room; i++) {
        port *p = &ports[i];
        char address[INET_ADDRSTRLEN];
        inet_ntop(AF_INET, &p->address, address, sizeof address);
        used += (size_t)snprintf(answer + used, room - used,
                                 "%s{\"name\": \"%s\", \"address\": \"%s\", \"up\": %s, \"mtu\": %d, \"blackhole\": %s, \"taken\": %lu, "
                                 "\"passed\": %lu, \"lost\": %lu, \"crowded_out\": %lu, \"nowhere\": %lu, \"too_large\": %lu, \"queued\": %ld}",
                                 i ? ", " : "", p->name, address, p->down ? "false" : "true", p->mtu, p->blackhole ? "true" : "false",
                                 p->taken, p->passed, p->lost, p->crowded_out, p->nowhere, p->too_large, p->queued);
    }
    if (used < room) {
        snprintf(answer + used, room - used, "]}");
    }
}

/* Carries out a command about all ports; returns 0 for any other command. */
static int
set_all(const char *verb, double value)
{
    if (strcmp(verb, "delay") == 0) {
        delay = (uint64_t)(value * 1000);
    } else if (strcmp(verb, "rate") == 0) {
        rate = value;
    } else if (strcmp(verb, "queue") == 0) {
        queue_limit = (long)value;
    } else if (strcmp(verb, "seed") == 0) {
        srandom((unsigned)value);
    } else if (strcmp(verb, "loss") == 0) {
        loss = (unsigned)value;
        set_offloads(loss == 0);
    } else {
        return 0;
    }
    return 1;
}

/* Carries out a command about one port; returns 0 for any other command. */
static int
set_one(port *p, const char *verb, const char *value)
{
    if (strcmp(verb, "up") == 0 || strcmp(verb, "down") == 0) {
        p->down = verb[0] == 'd';
    } else if (strcmp(verb, "mtu") == 0 && atoi(value) >= 68) {
        p->mtu = atoi(value);
    } else if (strcmp(verb, "blackhole") == 0) {
        p->blackhole = atoi(value) != 0;
    } else if (strcmp(verb, "address") != 0 || inet_pton(AF_INET, value, &p->address) != 1) {
        return 0;
    }
    return 1;
}

static void
obey(const char *command, char *answer, size_t room)
{
    char verb[16] = "", first[64] = "", second[64] = "", *end;
    int words = sscanf(command, "%15s %63s %63s", verb, first, second);
    snprintf(answer, room, "ok");
    if (words == 1 && strcmp(verb, "stats") == 0) {
        say_stats(answer, room);
        return;
    }
    double value = strtod(first, &end);
    if (words == 2 && *first && *end == '\0' && value >= 0 && set_all(verb, value)) {
        return;
    }
    for (int i = 0; i < count; i++) {
        if (strcmp(ports[i].name, first) == 0 && set_one(&ports[i], verb, second)) {
            return;
        }
    }
    snprintf(answer, room, "error: not understood, or no such office: %s", command);
}

/* One message from a connection; returns 0 when it was the last. */
static int
serve(int client)
{
    static char command[256], answer[1 << 15];
    ssize_t size = recv(client, command, sizeof command - 1, 0);
    if (size <= 0) {
        return size < 0 && (errno == EAGAIN || errno == EINTR);
    }
    command[size] = '\0';
    obey(command, answer, sizeof answer);
    return send(client, answer, strlen(answer), MSG_NOSIGNAL) >= 0;
}

static int
listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        fprintf(stderr, "relay: the path of the socket is too long: %s\n", path);
        exit(2);
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, MOST_CLIENTS) != 0) {
        die(path);
    }
    return fd;
}

/* The loop: everything that is due is handed over, then whatever comes first is waited for. */
static void
run(int listener)
{
    struct pollfd watched[MOST_PORTS + 1 + MOST_CLIENTS];
    int clients = 0, first = count + 1;
    for (int i = 0; i < count; i++) {
        watched[i] = (struct pollfd){.fd = ports[i].fd, .events = POLLIN};
    }
    for (;;) {
        uint64_t next = deliver(), time = now();
        struct timespec wait = {0}, *limit = NULL;
        if (next) {
            uint64_t left = next > time ? next - time : 0;
            wait.tv_sec = (time_t)(left / 1000000000u);
            wait.tv_nsec = (long)(left % 1000000000u);
            limit = &wait;
        }
        watched[count] = (struct pollfd){.fd = clients < MOST_CLIENTS ? listener : -1, .events = POLLIN};
        if (ppoll(watched, (nfds_t)(first + clients), limit, NULL) <= 0) {
            continue;
        }
        for (int i = 0; i < clients; i++) {
            if (watched[first + i].revents && !serve(watched[first + i].fd)) {
                close(watched[first + i].fd);
                watched[first + i--] = watched[first + --clients];
            }
        }
        if (watched[count].revents & POLLIN) {
            int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (client >= 0) {
                watched[first + clients++] = (struct pollfd){.fd = client, .events = POLLIN};
            }
        }
        for (int i = 0; i < count; i++) {
            if (watched[i].revents & POLLIN) {
                take(&ports[i]);
            } else if (watched[i].revents) {
                watched[i].fd = -1; /* the device has gone, with the machine that had it */
            }
        }
    }
}

int
main(int argc, char **argv)
{
    if (argc < 4 || inet_pton(AF_INET, argv[2], &router) != 1) {
        fprintf(stderr, "usage: relay SOCKET ROUTER NAME:PID:DEVICE:ADDRESS...\n");
        return 2;
    }
    int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    for (int i = 3; i < argc; i++) {
        open_port(argv[i]);
    }
    if (setns(own, CLONE_NEWNET) != 0) {
        die("back to the own network");
    }
    set_offloads(1);
    srandom(1);
    prctl(PR_SET_TIMERSLACK, 1000);
    signal(SIGPIPE, SIG_IGN);
    int listener = listen_at(argv[1]);
    printf("ready\n");
    fflush(stdout);
    run(listener);
}
