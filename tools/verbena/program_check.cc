#include "tools/verbena/program_check.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

namespace verbena::tool {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kOurMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kOurMachine = EM_AARCH64;
#else
#error "name the ELF machine of this architecture"
#endif

// As deep as Linux follows "#!" from script to script (exec_binprm in fs/exec.c).
constexpr int kMaxScriptDepth = 5;

std::optional<std::string> refuse(const std::string& path, std::string_view reason) {
  return fmt::format("{}: {}", path, reason);
}

std::optional<std::string> check_elf(const std::string& path, std::ifstream& file) {
  Elf64_Ehdr header{};
  file.seekg(0);
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  // Both classes have e_ident, e_type and e_machine at the same place.
  if (file.gcount() < static_cast<std::streamsize>(sizeof(Elf32_Ehdr))) {
    return refuse(path, "a truncated ELF file");
  }
  if (header.e_ident[EI_CLASS] == ELFCLASS32) {
    return refuse(path, "a 32-bit program; the preload library is 64-bit: use a 64-bit build");
  }
  if (header.e_machine != kOurMachine) {
    return refuse(path, fmt::format("a program for ELF machine {}, not for this one ({})",
                                    header.e_machine, kOurMachine));
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + i * std::uint64_t{header.e_phentsize}));
    file.read(reinterpret_cast<char*>(&segment), sizeof segment);
    if (file.gcount() != sizeof segment) return refuse(path, "a truncated ELF file");
    if (segment.p_type == PT_INTERP) return std::nullopt;
  }
  return refuse(path,
                "a static program: it has no dynamic loader that could preload a library; "
                "link it dynamically");
}

std::optional<std::string> check(const std::string& path, int depth);

/// `line` is what follows "#!".
std::optional<std::string> check_script(const std::string& path, const std::string& line,
                                        int depth) {
  std::istringstream words{line};
  std::string interpreter;
  words >> interpreter;
  if (interpreter.empty()) return refuse(path, "a script whose #! names no interpreter");
  if (depth >= kMaxScriptDepth) return refuse(path, "too many nested script interpreters");
  auto problem = check(interpreter, depth + 1);
  if (problem) return fmt::format("{}: its interpreter can't be used: {}", path, *problem);

  // "#!/usr/bin/env [-S] [-x] [NAME=VALUE] PROGRAM": what counts is the program.
  if (!interpreter.ends_with("/env")) return std::nullopt;
  for (std::string word; words >> word;) {
    if (word.starts_with('-') || word.find('=') != std::string::npos) continue;
    const auto found = find_program(word);
    if (!found) return refuse(path, fmt::format("its interpreter \"{}\" is not in PATH", word));
    problem = check(*found, depth + 1);
    if (problem) return fmt::format("{}: its interpreter can't be used: {}", path, *problem);
    break;
  }
  return std::nullopt;
}

std::optional<std::string> check(const std::string& path, int depth) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return refuse(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return refuse(path, "not a regular file");
  if (access(path.c_str(), X_OK) != 0) return refuse(path, "not executable by this user");

  std::ifstream file{path, std::ios::binary};
  if (!file) {
    return refuse(path,
                  "executable but not readable, so the loader ignores LD_PRELOAD's libraries "
                  "outside of trusted folders; make it readable");
  }
  std::array<char, 4> magic{};
  file.read(magic.data(), magic.size());
  if (file.gcount() >= 2 && magic[0] == '#' && magic[1] == '!') {
    // Linux ignores setuid bits and capabilities of a script: its interpreter's count.
    std::string line;
    file.clear();
    file.seekg(2);
    std::getline(file, line);
    return check_script(path, line, depth);
  }

  if ((status.st_mode & S_ISUID) != 0) {
    return refuse(path,
                  "a setuid program: the loader drops LD_PRELOAD; run a copy without the bit");
  }
  if ((status.st_mode & S_ISGID) != 0) {
    return refuse(path,
                  "a setgid program: the loader drops LD_PRELOAD; run a copy without the bit");
  }
  if (getxattr(path.c_str(), "security.capability", nullptr, 0) >= 0) {
    return refuse(path,
                  "a program with file capabilities (see getcap): the loader drops LD_PRELOAD; "
                  "run a copy of it");
  }
  if (std::memcmp(magic.data(), ELFMAG, SELFMAG) == 0) return check_elf(path, file);
  return std::nullopt;  // execvp(3) hands anything else to /bin/sh
}

}  // namespace

std::optional<std::string> find_program(std::string_view name) {
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string_view::npos) {
    std::string path{name};
    return access(path.c_str(), F_OK) == 0 ? std::optional{std::move(path)} : std::nullopt;
  }
  const char* const variable = std::getenv("PATH");
  std::istringstream folders{variable != nullptr ? variable : "/bin:/usr/bin"};
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string path = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
    struct stat status {};
    if (stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
        access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return std::nullopt;
}

std::optional<std::string> reason_to_refuse(const std::string& path) { return check(path, 0); }

}  // namespace verbena::tool
