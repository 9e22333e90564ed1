/* What a router on the way does with an IPv4 packet that the next link cannot take: cuts it up, or says so to the sender.
   Packets are as a TUN device with IFF_VNET_HDR hands them over: a struct virtio_net_hdr, then the packet. No I/O here. */
#ifndef ROAMLET_LAB_PACKET_H
#define ROAMLET_LAB_PACKET_H

#include <arpa/inet.h>
#include <linux/virtio_net.h>
#include <stdint.h>
#include <string.h>

enum { VNET = sizeof(struct virtio_net_hdr), LARGEST = VNET + 65536, IP_HEADER = 20, QUOTED = 8 };

static inline uint16_t
read16(const unsigned char *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static inline void
write16(unsigned char *at, unsigned value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

/* The internet checksum of `size` bytes. */
static inline uint16_t
checksum(const unsigned char *bytes, size_t size)
{
    uint32_t sum = 0;
    for (size_t i = 0; i + 1 < size; i += 2) {
        sum += read16(bytes + i);
    }
    if (size & 1) {
        sum += (uint32_t)bytes[size - 1] << 8;
    }
    while (sum >> 16) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)~sum;
}

static inline void
seal_ip_header(unsigned char *ip)
{
    write16(ip + 10, 0);
    write16(ip + 10, checksum(ip, (size_t)(ip[0] & 15) * 4));
}

/* Whether this is an IPv4 packet that is as long as it says and has a whole header. */
static inline int
is_ipv4(const unsigned char *buffer, int size)
{
    const unsigned char *ip = buffer + VNET;
    int length = size - VNET;
    return length >= IP_HEADER && ip[0] >> 4 == 4 && (ip[0] & 15) >= 5 && (ip[0] & 15) * 4 <= length && read16(ip + 2) <= length;
}

static inline uint32_t
destination_of(const unsigned char *buffer)
{
    uint32_t address;
    memcpy(&address, buffer + VNET + 16, 4);
    return address;
}

static inline int
may_not_be_cut(const unsigned char *buffer)
{
    return (buffer[VNET + 6] & 0x40) != 0;
}

/* The length of the largest packet on the wire that this is: a packet that the kernel has left uncut counts by its pieces. */
static inline int
length_on_wire(const unsigned char *buffer, int size)
{
    struct virtio_net_hdr header;
    memcpy(&header, buffer, VNET);
    if (header.gso_type == VIRTIO_NET_HDR_GSO_NONE) {
        return size - VNET;
    }
    return header.hdr_len + header.gso_size;
}

/* Computes the checksum that the kernel has left to the device. */
static inline void
finish_checksum(unsigned char *buffer, int size)
{
    struct virtio_net_hdr header;
    memcpy(&header, buffer, VNET);
    int start = VNET + header.csum_start, place = start + header.csum_offset;
    if ((header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) && place + 2 <= size) {
        uint16_t sum = checksum(buffer + start, (size_t)(size - start));
        write16(buffer + place, sum ? sum : 0xffff); /* for UDP, 0 would mean "no checksum" */
        header.flags = 0;
        memcpy(buffer, &header, VNET);
    }
}

/* Writes into `answer` the ICMP message "fragmentation needed" about the packet, from `router`; returns its size, 0 if there must be none. */
static inline int
fragmentation_needed(const unsigned char *buffer, int size, uint32_t router, int mtu, unsigned char *answer)
{
    const unsigned char *ip = buffer + VNET;
    int quoted = (ip[0] & 15) * 4 + QUOTED;
    if (size - VNET < quoted || (read16(ip + 6) & 0x1fff)) {
        return 0; /* never about a later fragment */
    }
    if (ip[9] == IPPROTO_ICMP && ip[(ip[0] & 15) * 4] != 8 && ip[(ip[0] & 15) * 4] != 0) {
        return 0; /* nor about an error */
    }
    unsigned char *out = answer + VNET, *icmp = out + IP_HEADER;
    memset(answer, 0, (size_t)(VNET + IP_HEADER + 8));
    out[0] = 0x45;
    write16(out + 2, (unsigned)(IP_HEADER + 8 + quoted));
    out[8] = 64;
    out[9] = IPPROTO_ICMP;
    memcpy(out + 12, &router, 4);
    memcpy(out + 16, ip + 12, 4);
    seal_ip_header(out);
    icmp[0] = 3;
    icmp[1] = 4;
    write16(icmp + 6, (unsigned)mtu);
    memcpy(icmp + 8, ip, (size_t)quoted);
    write16(icmp + 2, checksum(icmp, (size_t)(8 + quoted)));
    return VNET + IP_HEADER + 8 + quoted;
}

/* Writes into `piece` the fragment of the packet that begins `*done` bytes behind its header, and moves `*done` on; returns its
   size. The packet's checksum has been finished. Call it until `*done` is all that the packet holds. */
static inline int
next_fragment(const unsigned char *buffer, int *done, int mtu, unsigned char *piece)
{
    const unsigned char *ip = buffer + VNET;
    int header = (ip[0] & 15) * 4, payload = read16(ip + 2) - header, most = (mtu - header) & ~7;
    int taken = payload - *done > most ? most : payload - *done;
    unsigned before = read16(ip + 6), more = *done + taken < payload ? 0x2000 : before & 0x2000;
    memset(piece, 0, VNET);
    memcpy(piece + VNET, ip, (size_t)header);
    memcpy(piece + VNET + header, ip + header + *done, (size_t)taken);
    write16(piece + VNET + 2, (unsigned)(header + taken));
    write16(piece + VNET + 6, more | ((before & 0x1fff) + (unsigned)*done / 8));
    seal_ip_header(piece + VNET);
    *done += taken;
    return VNET + header + taken;
}

#endif
