#include "tools/doctor/preload_check.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "settings/settings.h"
#include "tools/doctor/text.h"
#include "tools/verbena/preload.h"

namespace verbena::doctor {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kThisMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kThisMachine = EM_AARCH64;
#else
#error "name the ELF machine of this architecture"
#endif

constexpr std::string_view kVerbsLibrary = "libibverbs.so.1";

std::string quoted_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// As ld.so(8) splits LD_PRELOAD.
std::vector<std::string> preloaded_entries() {
  std::vector<std::string> entries{""};
  for (const char c : quoted_variable("LD_PRELOAD")) {
    if (c == ' ' || c == ':') {
      entries.emplace_back();
    } else {
      entries.back() += c;
    }
  }
  std::erase(entries, "");
  return entries;
}

/// Did the loader of this process take it?
bool is_loaded(const std::string& entry) {
  void* const library = dlopen(entry.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  dlclose(library);
  return true;
}

bool is_verbs_library(const std::string& entry) {
  return std::filesystem::path{entry}.filename() == kVerbsLibrary;
}

/// In a namespace of its own: our process may have another one already. "": it can't be loaded.
std::string path_of_system_library(const char* name) {
  void* const library = dlmopen(LM_ID_NEWLM, name, RTLD_LAZY);
  if (library == nullptr) return "";
  link_map* map = nullptr;
  std::string path = "?";
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) path = map->l_name;
  dlclose(library);
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

Mend without(const std::vector<std::string>& kept, bool ours_was_wrong) {
  if (ours_was_wrong) return {"unset LD_PRELOAD; eval \"$(verbena env)\""};
  if (kept.empty()) return {"unset LD_PRELOAD"};
  return {fmt::format("export LD_PRELOAD='{}'", fmt::join(kept, ":"))};
}

}  // namespace

std::optional<std::string> reason_not_to_load(const std::string& path) {
  if (path.find('/') == std::string::npos) return "no folder of libraries has it";
  if (access(path.c_str(), R_OK) != 0) return std::strerror(errno);
  std::ifstream file{path, std::ios::binary};
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  // Both classes have e_ident, e_type and e_machine at the same place.
  if (file.gcount() < static_cast<std::streamsize>(sizeof(Elf32_Ehdr)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return "it is no shared library";
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return "it is a 32-bit library";
  if (header.e_machine != kThisMachine) {
    return fmt::format("it is for another processor (ELF machine {}, this one is {})",
                       header.e_machine, kThisMachine);
  }
  if (header.e_type != ET_DYN) return "it is no shared library";
  return std::nullopt;
}

Finding check_library() {
  const auto library = tool::find_preload_library();
  if (library.problem.empty()) {
    return fine("library", fmt::format("Verbena {}: {}", VERBENA_VERSION, library.path));
  }
  return failure("library", library.problem, "No program gets our devices.",
                 {{"make install", true, "the folder of Verbena's sources"}});
}

Findings judge_version(const std::string& version) {
  if (version.empty() || version == "verbena " VERBENA_VERSION) return {};
  return {failure(
      "library",
      fmt::format("this program is verbena {}, and its library {}", VERBENA_VERSION, version),
      "They may not understand each other.",
      {{"make install", true, "the folder of Verbena's sources"}})};
}

Finding check_preload() {
  const auto entries = preloaded_entries();
  if (entries.empty()) {
    return fine("preload", "LD_PRELOAD is not set: `verbena run -- PROGRAM` sets it");
  }
  const std::string ours = tool::find_preload_library().path;
  std::vector<std::string> kept, broken;
  bool verbs_broken = false, verbs_foreign = false;
  for (const std::string& entry : entries) {
    const bool verbs = is_verbs_library(entry);
    if (!is_loaded(entry)) {
      broken.push_back(fmt::format(
          "{} ({})", entry, reason_not_to_load(entry).value_or("the dynamic loader refuses it")));
      verbs_broken = verbs_broken || verbs;
    } else {
      verbs_foreign =
          verbs_foreign || (verbs && ours.find(entry) == std::string::npos && kept.empty());
      kept.push_back(entry);
    }
  }
  if (!broken.empty()) {
    return failure("preload", "LD_PRELOAD names what can't be loaded: " + listed(broken),
                   verbs_broken ? "Programs of this shell run without our devices."
                                : "Each program of this shell complains, and runs without it.",
                   {without(kept, verbs_broken)});
  }
  if (verbs_foreign) {
    return warning("preload",
                   fmt::format("LD_PRELOAD begins with {}, which is not this Verbena's ({})",
                               kept.front(), ours),
                   "Programs of this shell use another Verbena than the command verbena does.",
                   {without({}, true)});
  }
  return fine("preload", "LD_PRELOAD has " + listed(kept));
}

Finding check_variables() {
  std::vector<std::string> problems, names, changed;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!text.starts_with("VERBENA_")) continue;
    const std::string name = text.substr(0, text.find('='));
    const std::array<const char*, 2> alone{text.c_str(), nullptr};
    const auto reading = settings::read_environment(alone.data());
    for (const std::string& problem : reading.problems) problems.push_back(problem);
    if (!reading.problems.empty()) names.push_back(name);
    if (reading.settings.faults || reading.settings.wire != settings::WireKind::automatic) {
      changed.push_back(text);
    }
  }
  for (const settings::Variable& v : settings::variables()) unsetenv(std::string{v.name}.c_str());
  for (const std::string& name : names) unsetenv(name.c_str());
  if (!problems.empty()) {
    return failure("variables", listed(problems), "Programs refuse to start on our devices.",
                   {{fmt::format("unset {}", fmt::join(names, " "))}});
  }
  if (changed.empty()) return fine("variables", "no VERBENA_* variable changes the network");
  names.clear();
  for (const std::string& text : changed) names.push_back(text.substr(0, text.find('=')));
  return warning("variables", "this shell has " + listed(changed),
                 "Programs of this shell lose or delay frames, or use another way than by default.",
                 {{fmt::format("unset {}", fmt::join(names, " "))}});
}

Finding check_rdma_core() {
  const std::string verbs = path_of_system_library("/usr/$LIB/libibverbs.so.1");
  const std::string cm = path_of_system_library("/usr/$LIB/librdmacm.so.1");
  if (verbs.empty() || cm.empty()) {
    std::vector<std::string> missing, packages;
    if (verbs.empty())
      missing.emplace_back("libibverbs.so.1"), packages.emplace_back("libibverbs1");
    if (cm.empty()) missing.emplace_back("librdmacm.so.1"), packages.emplace_back("librdmacm1");
    const std::string seen = fmt::format("the system has no usable {}", listed(missing));
    if (tool::find_preload_library().path.find("/bare/") != std::string::npos) {
      return fine("rdma-core", seen + "; this Verbena brings its own");
    }
    return warning(
        "rdma-core", seen, "Programs that are linked with it don't start.",
        {{fmt::format("apt-get install --reinstall {}", fmt::join(packages, " ")), true}});
  }
  return fine("rdma-core", fmt::format("{} and {}", verbs, cm));
}

}  // namespace verbena::doctor
