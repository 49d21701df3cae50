// A file over plain TCP with a hash of each chunk, what `verbena send` is measured beside: one
// connection, one thread at each end. And the hashes alone, for `cp`.
//
//   tcp_copy receive PORT FILE    prints "listening", takes one file, checks every hash
//   tcp_copy send PORT FILE       to 127.0.0.1
//   tcp_copy hash FILE…           reads and hashes

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace {

constexpr std::size_t kChunk = 512 << 10;

struct Header {
  std::uint64_t length;  // 0: the end
  XXH128_hash_t hash;
};

[[noreturn]] void fail(const std::string& what) {
  std::perror(what.c_str());
  std::exit(1);
}

int checked(int result, const char* what) {
  if (result < 0) fail(what);
  return result;
}

/// As many bytes as there are, up to `size`.
std::size_t read_up_to(int fd, void* to, std::size_t size) {
  std::size_t have = 0;
  while (have < size) {
    const ssize_t count = read(fd, static_cast<char*>(to) + have, size - have);
    if (count < 0) fail("read");
    if (count == 0) break;
    have += static_cast<std::size_t>(count);
  }
  return have;
}

void write_all(int fd, const void* from, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = write(fd, static_cast<const char*>(from) + done, size - done);
    if (count <= 0) fail("write");
    done += static_cast<std::size_t>(count);
  }
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

void send_file(int port, const char* name) {
  const int file = checked(open(name, O_RDONLY), name);
  const int connection = checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
  const sockaddr_in to = loopback(port);
  checked(connect(connection, reinterpret_cast<const sockaddr*>(&to), sizeof to), "connect");
  std::vector<char> chunk(kChunk);
  Header header{};
  do {
    header.length = read_up_to(file, chunk.data(), kChunk);
    header.hash = XXH3_128bits(chunk.data(), header.length);
    write_all(connection, &header, sizeof header);
    write_all(connection, chunk.data(), header.length);
  } while (header.length > 0);
  char verdict = 0;
  if (read_up_to(connection, &verdict, 1) != 1) fail("no verdict");
}

void receive_file(int port, const char* name) {
  const int file = checked(open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600), name);
  const int listener = checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
  const int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const sockaddr_in at = loopback(port);
  checked(bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at), "bind");
  checked(listen(listener, 1), "listen");
  std::puts("listening");
  std::fflush(stdout);
  const int connection = checked(accept(listener, nullptr, nullptr), "accept");
  std::vector<char> chunk(kChunk);
  while (true) {
    Header header{};
    if (read_up_to(connection, &header, sizeof header) != sizeof header) fail("the sender left");
    if (header.length == 0) break;
    if (header.length > kChunk ||
        read_up_to(connection, chunk.data(), header.length) != header.length) {
      fail("the sender left");
    }
    const XXH128_hash_t hash = XXH3_128bits(chunk.data(), header.length);
    if (XXH128_isEqual(hash, header.hash) == 0) fail("a hash is wrong");
    write_all(file, chunk.data(), header.length);
  }
  write_all(connection, "y", 1);
}

void hash_file(const char* name) {
  const int file = checked(open(name, O_RDONLY), name);
  std::vector<char> chunk(kChunk);
  XXH64_hash_t all = 0;
  while (const std::size_t size = read_up_to(file, chunk.data(), kChunk)) {
    all ^= XXH3_128bits(chunk.data(), size).low64;
  }
  close(file);
  std::printf("%016llx %s\n", static_cast<unsigned long long>(all), name);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "send" && argc == 4) {
    send_file(std::atoi(argv[2]), argv[3]);
  } else if (command == "receive" && argc == 4) {
    receive_file(std::atoi(argv[2]), argv[3]);
  } else if (command == "hash" && argc > 2) {
    for (int i = 2; i < argc; ++i) hash_file(argv[i]);
  } else {
    std::fputs("usage: tcp_copy send|receive PORT FILE, tcp_copy hash FILE...\n", stderr);
    return 2;
  }
}
