#pragma once

/* The frame of a lab whose story is told in C: options, words, checks. main() is a few lines of
 * C++:
 *
 *   void server(const lab::Options& options) {
 *     const lab_options c = lab::for_c(options);
 *     cm_server(&c);
 *   }
 *
 * A check that doesn't hold ends the lab with exit status 1. It throws through the C functions,
 * which are compiled with -fexceptions for that; they hold nothing that outlives the process. */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LAB_PRINTF(at, values) __attribute__((format(printf, at, values)))

struct lab_options {
  const char* host;   /* the server's */
  const char* device; /* "": whichever reaches the host */
  uint16_t port;
  size_t size;     /* bytes of a message */
  const void* all; /* what the functions below need */
};

/* A line of the story, and the one line for the table of `verbena lab all`. */
void lab_say(const char* format, ...) LAB_PRINTF(1, 2);
void lab_shown(const char* format, ...) LAB_PRINTF(1, 2);

/* End the lab: exit status 1, unless it holds. */
void lab_check(bool holds, const char* otherwise, ...) LAB_PRINTF(2, 3);
void lab_fail(const char* why, ...) __attribute__((noreturn)) LAB_PRINTF(1, 2);
/* For calls that return 0, or -1 and errno, as those of librdmacm do. */
#define LAB_CALL(call) lab_check((call) == 0, "%s: %s", #call, strerror(errno))
/* For calls that return 0 or an errno, as most of libibverbs do. */
#define LAB_VERB(call)                                             \
  do {                                                             \
    const int lab_code = (call);                                   \
    lab_check(lab_code == 0, "%s: %s", #call, strerror(lab_code)); \
  } while (0)

/* The server listens: its client may start. */
void lab_ready(uint16_t port);

/* Until there is something to read from `fd`; false: nothing came in --timeout. */
bool lab_readable(const struct lab_options* options, int fd);
/* The same for `milliseconds` at most. */
bool lab_readable_within(const struct lab_options* options, int fd, int milliseconds);
/* Ends the lab if nothing comes; `what` was waited for. */
void lab_wait_for(const struct lab_options* options, int fd, const char* what);
/* Ends the lab if its time is over; for loops that poll. */
void lab_in_time(const struct lab_options* options, const char* waiting_for);

/* Nobody connected, the peer can't be reached (`code` is an errno, or 0): each with what to do. */
void lab_nobody_came(const struct lab_options* options) __attribute__((noreturn));
void lab_not_there(const struct lab_options* options, const char* call, int code, const char* cause)
    __attribute__((noreturn));

/* Addresses: of the host that HOST or --device names, port included. Each returns the length; 0 of
 * the last one: it doesn't matter from where to speak. */
socklen_t lab_server_address(const struct lab_options* options, struct sockaddr_storage* to);
socklen_t lab_listen_address(const struct lab_options* options, struct sockaddr_storage* at);
socklen_t lab_source_address(const struct lab_options* options, struct sockaddr_storage* from);
/* "127.0.0.1:7471", good until the next call. */
const char* lab_address_text(const struct sockaddr* address);
/* The name of the device to open: that of --device, else the usual one. Good until the next call.
 */
const char* lab_device_name(const struct lab_options* options);

/* What each end of a lab shows first, so that ends of different labs part with a clear word. */
enum { LAB_BADGE_SIZE = 24 };
void lab_badge(const struct lab_options* options, uint8_t badge[LAB_BADGE_SIZE]);
bool lab_is_badge(const void* shown, size_t length);
/* Why whoever showed this is no end of this lab; NULL: it is one. Good until the next call. */
const char* lab_stranger(const struct lab_options* options, const void* shown, size_t length);

/* Bytes that both ends can make from a number. The check ends the lab at the first wrong one. */
void lab_fill(void* bytes, size_t length, uint64_t seed);
void lab_check_bytes(const void* bytes, size_t length, uint64_t seed, const char* what);

/* "RTS"; `state` is an enum ibv_qp_state. */
const char* lab_state_name(int state);

#ifdef __cplusplus
}

namespace lab {
struct Options;
/// Good as long as `options`.
[[nodiscard]] lab_options for_c(const Options& options);
}  // namespace lab
#endif
