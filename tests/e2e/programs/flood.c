/* Frames that nobody wants, at a live device: random bytes, frames with a wrong checksum, and
 * frames whose checksum is right but which come from an address that is nobody's peer.
 *
 *   flood TARGET COUNT RATE SEED QPNS STRANGER...
 *
 * Sends COUNT datagrams to UDP port 4791 of the IPv4 address TARGET, RATE per second, from the
 * addresses STRANGER. QPNS is a file of numbers of live queue pairs, one on a line; it is read
 * again while it runs. Nothing that a stranger can send may change what the queue pairs do, so what
 * could by the rules (the peer's own address, with a checksum that is right) is not sent. The
 * checksum is computed here, by the book (A17.3.4), not by the code under test.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kPort = 4791, kMost = 2048, kSources = 16, kPairs = 64, kBatch = 32 };

struct source {
  int fd;
  struct sockaddr_in address;
};

static struct source sources[kSources];
static size_t source_count;
static struct sockaddr_in target;
static uint32_t qpns[kPairs];
static size_t qpn_count;
static uint64_t state;
static uint32_t crc_table[256];

static uint64_t dice(void) { /* xorshift64* */
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 2685821657736338717ull;
}
static uint32_t below(uint32_t n) { return (uint32_t)((dice() >> 32) % n); }

static void fill(uint8_t* to, size_t size) {
  for (size_t i = 0; i < size; ++i) to[i] = (uint8_t)(dice() >> 40);
}

static void make_table(void) {
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
    crc_table[i] = c;
  }
}
static uint32_t crc(uint32_t c, const uint8_t* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) c = crc_table[(c ^ bytes[i]) & 0xff] ^ (c >> 8);
  return c;
}

static void store16(uint8_t* to, uint32_t v) { to[0] = (uint8_t)(v >> 8), to[1] = (uint8_t)v; }
static void store24(uint8_t* to, uint32_t v) { to[0] = (uint8_t)(v >> 16), store16(to + 1, v); }

/* Over eight bytes of ones, the headers with what changes on the way as ones, and the payload. */
static void seal(uint8_t* frame, size_t size, const struct sockaddr_in* from) {
  uint8_t head[8 + 20 + 8 + 12];
  memset(head, 0xff, 8);
  uint8_t *ip = head + 8, *udp = ip + 20, *bth = udp + 8;
  memset(ip, 0, 20);
  ip[0] = 0x45, ip[1] = 0xff;
  store16(ip + 2, (uint32_t)(20 + 8 + size));
  ip[6] = 0x40; /* don't fragment; identification 0 */
  ip[8] = 0xff, ip[9] = 17, ip[10] = ip[11] = 0xff;
  memcpy(ip + 12, &from->sin_addr, 4);
  memcpy(ip + 16, &target.sin_addr, 4);
  memcpy(udp, &from->sin_port, 2);
  memcpy(udp + 2, &target.sin_port, 2);
  store16(udp + 4, (uint32_t)(8 + size));
  udp[6] = udp[7] = 0xff;
  memcpy(bth, frame, 12);
  bth[4] = 0xff;
  uint32_t c = crc(0xffffffffu, head, sizeof head);
  c = ~crc(c, frame + 12, size - 12 - 4);
  for (int i = 0; i < 4; ++i) frame[size - 4 + (size_t)i] = (uint8_t)(c >> 8 * i);
}

static uint32_t some_qpn(void) {
  const uint32_t kind = below(8);
  if (kind < 6 && qpn_count > 0) return qpns[below((uint32_t)qpn_count)];
  return kind == 6 ? 0xffffff : below(1u << 24);
}

/* A header that may be one, and whatever follows. */
static size_t roce_frame(uint8_t* frame) {
  const size_t size = 16 + below(below(4) ? 128 : 1500);
  fill(frame, size);
  /* All services and operations; now and then a number that is none. */
  if (below(16)) frame[0] = (uint8_t)((below(6) << 5) | below(0x18));
  frame[1] &= 0xf0;                         /* transport version 0 */
  if (below(8)) frame[2] = frame[3] = 0xff; /* the default partition */
  store24(frame + 5, some_qpn());
  return size;
}

/* To QP 1: a management datagram of the connection manager, all but its class at random. */
static size_t message(uint8_t* frame) {
  const size_t size = 12 + 8 + 256 + 4;
  fill(frame, size);
  frame[0] = 0x64, frame[1] = 0;
  frame[2] = frame[3] = 0xff;
  store24(frame + 5, 1);
  static const uint8_t kDeth[8] = {0x80, 1, 0, 0, 0, 0, 0, 1};
  memcpy(frame + 12, kDeth, sizeof kDeth);
  uint8_t* mad = frame + 20;
  mad[0] = 1, mad[1] = 7, mad[2] = 2, mad[3] = 3; /* version, class, class version, send */
  mad[4] = mad[5] = 0;
  store16(mad + 16, 0x10 + below(12));
  return size;
}

static size_t some_frame(uint8_t* frame, const struct source* from) {
  size_t size;
  switch (below(8)) {
    case 0:
      size = below(kMost);
      fill(frame, size);
      return size;
    case 1:
    case 2:
      return roce_frame(frame); /* the checksum is wrong */
    case 3:
      size = message(frame);
      break;
    default:
      size = roce_frame(frame);
  }
  seal(frame, size, &from->address);
  return size;
}

static void read_pairs(const char* path) {
  FILE* file = fopen(path, "r");
  if (file == NULL) return;
  size_t count = 0;
  for (unsigned long n; count < kPairs && fscanf(file, "%li", (long*)&n) == 1;) {
    qpns[count++] = (uint32_t)n;
  }
  fclose(file);
  if (count > 0) qpn_count = count;
}

static void open_source(const char* address) {
  struct source* s = &sources[source_count];
  s->address.sin_family = AF_INET;
  socklen_t size = sizeof s->address;
  s->fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (s->fd < 0 || inet_pton(AF_INET, address, &s->address.sin_addr) != 1 ||
      bind(s->fd, (struct sockaddr*)&s->address, size) != 0 ||
      getsockname(s->fd, (struct sockaddr*)&s->address, &size) != 0) {
    fprintf(stderr, "flood: %s: %s\n", address, strerror(errno));
    exit(1);
  }
  ++source_count;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void send_batch(const struct source* from) {
  uint8_t frame[kMost];
  for (int i = 0; i < kBatch; ++i) {
    const size_t size = some_frame(frame, from);
    while (sendto(from->fd, frame, size, 0, (struct sockaddr*)&target, sizeof target) < 0) {
      if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR && errno != ECONNREFUSED) {
        perror("flood: sendto");
        exit(1);
      }
    }
  }
}

int main(int argc, char** argv) {
  if (argc < 7 || argc - 6 > kSources) {
    fprintf(stderr, "usage: flood TARGET COUNT RATE SEED QPNS STRANGER...\n");
    return 2;
  }
  const long count = atol(argv[2]);
  const double rate = atof(argv[3]);
  state = strtoull(argv[4], NULL, 0) | 1;
  target.sin_family = AF_INET;
  target.sin_port = htons(kPort);
  if (inet_pton(AF_INET, argv[1], &target.sin_addr) != 1) return 2;
  for (int i = 6; i < argc; ++i) open_source(argv[i]);
  make_table();

  const double begin = now();
  long sent = 0;
  for (; sent < count; sent += kBatch) {
    if (sent % (64 * kBatch) == 0) read_pairs(argv[5]);
    send_batch(&sources[below((uint32_t)source_count)]);
    const double early = begin + (double)sent / rate - now();
    if (early > 1e-3) usleep((useconds_t)(early * 1e6));
  }
  printf("sent %ld frames in %.1f s\n", sent, now() - begin);
  return 0;
}
