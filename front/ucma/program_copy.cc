#include "front/ucma/program_copy.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace verbena::front::ucma {

namespace {

Error bad_address(std::uint64_t address, std::size_t size) {
  return Error{EFAULT, std::to_string(size) + " bytes at " + std::to_string(address) +
                           " are not the program's memory"};
}

}  // namespace

Status copy_to_program(std::uint64_t address, const void* bytes, std::size_t size) {
  void* const to = reinterpret_cast<void*>(address);
  const iovec local{const_cast<void*>(bytes), size};
  const iovec remote{to, size};
  const ssize_t n = process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
  if (n == static_cast<ssize_t>(size)) return Ok{};
  if (n >= 0 || errno == EFAULT) return bad_address(address, size);
  std::memcpy(to, bytes, size);  // the sandbox forbids the careful way
  return Ok{};
}

Status copy_from_program(void* to, std::uint64_t address, std::size_t size) {
  void* const from = reinterpret_cast<void*>(address);
  const iovec local{to, size};
  const iovec remote{from, size};
  const ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (n == static_cast<ssize_t>(size)) return Ok{};
  if (n >= 0 || errno == EFAULT) return bad_address(address, size);
  std::memcpy(to, from, size);
  return Ok{};
}

}  // namespace verbena::front::ucma
