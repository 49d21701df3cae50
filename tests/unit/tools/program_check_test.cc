#include "tools/verbena/program_check.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace verbena::tool {
namespace {

using testing::HasSubstr;

class ProgramCheck : public testing::Test {
 protected:
  ProgramCheck() {
    std::string name = testing::TempDir() + "program_check_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~ProgramCheck() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& bytes, mode_t mode = 0755) {
    std::string path = folder_ / "program";
    std::ofstream{path, std::ios::binary} << bytes;
    chmod(path.c_str(), mode);
    return path;
  }

  /// A 64-bit ELF header and one program header of this type.
  static std::string elf(std::uint32_t segment_type) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_machine = EM_X86_64;
    header.e_phoff = sizeof header;
    header.e_phnum = 1;
    header.e_phentsize = sizeof(Elf64_Phdr);
    Elf64_Phdr segment{};
    segment.p_type = segment_type;
    return std::string{reinterpret_cast<const char*>(&header), sizeof header} +
           std::string{reinterpret_cast<const char*>(&segment), sizeof segment};
  }

  std::filesystem::path folder_;
};

TEST_F(ProgramCheck, TakesADynamicProgram) {
  EXPECT_EQ(reason_to_refuse("/bin/sh"), std::nullopt);
  EXPECT_EQ(reason_to_refuse(write(elf(PT_INTERP))), std::nullopt);
}

TEST_F(ProgramCheck, RefusesAStaticProgram) {
  EXPECT_THAT(reason_to_refuse(write(elf(PT_LOAD))).value(), HasSubstr("static"));
}

TEST_F(ProgramCheck, RefusesA32BitProgram) {
  std::string bytes = elf(PT_INTERP);
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_THAT(reason_to_refuse(write(bytes)).value(), HasSubstr("32-bit"));
}

TEST_F(ProgramCheck, RefusesAnotherMachine) {
  std::string bytes = elf(PT_INTERP);
  bytes[offsetof(Elf64_Ehdr, e_machine)] = static_cast<char>(EM_S390);
  EXPECT_THAT(reason_to_refuse(write(bytes)).value(), HasSubstr("machine 22"));
}

TEST_F(ProgramCheck, RefusesAFileCutShort) {
  const std::string whole = elf(PT_INTERP);
  EXPECT_THAT(reason_to_refuse(write(whole.substr(0, 20))).value(), HasSubstr("truncated"));
  EXPECT_THAT(reason_to_refuse(write(whole.substr(0, sizeof(Elf64_Ehdr) + 8))).value(),
              HasSubstr("truncated"));
}

TEST_F(ProgramCheck, RefusesSetuidAndSetgid) {
  EXPECT_THAT(reason_to_refuse(write(elf(PT_INTERP), 04755)).value(), HasSubstr("setuid"));
  EXPECT_THAT(reason_to_refuse(write(elf(PT_INTERP), 02755)).value(), HasSubstr("setgid"));
}

TEST_F(ProgramCheck, RefusesFileCapabilities) {
  const std::string path = write(elf(PT_INTERP));
  // struct vfs_cap_data, revision 2: CAP_NET_RAW permitted and effective.
  const std::array<std::uint8_t, 20> capability{0x01, 0, 0, 0x02, 0x00, 0x20};
  if (setxattr(path.c_str(), "security.capability", capability.data(), capability.size(), 0) != 0) {
    GTEST_SKIP() << "setxattr security.capability: " << std::strerror(errno);
  }
  EXPECT_THAT(reason_to_refuse(path).value(), HasSubstr("capabilities"));
}

TEST_F(ProgramCheck, RefusesWhatIsNotThere) {
  EXPECT_THAT(reason_to_refuse("/no/such/program").value(), HasSubstr("No such file"));
  EXPECT_THAT(reason_to_refuse("/tmp").value(), HasSubstr("not a regular file"));
  EXPECT_THAT(reason_to_refuse(write("#!/bin/sh\n", 0644)).value(), HasSubstr("not executable"));
}

TEST_F(ProgramCheck, FollowsScriptsToTheirInterpreter) {
  EXPECT_EQ(reason_to_refuse(write("#!/bin/sh\n")), std::nullopt);
  EXPECT_EQ(reason_to_refuse(write("#! /bin/sh -e\n")), std::nullopt);
  EXPECT_EQ(reason_to_refuse(write("#!/usr/bin/env -S A=b sh -e\n")), std::nullopt);
  EXPECT_EQ(reason_to_refuse(write("echo no first line\n")), std::nullopt);
  EXPECT_THAT(reason_to_refuse(write("#!/no/such/shell\n")).value(), HasSubstr("No such file"));
  EXPECT_THAT(reason_to_refuse(write("#!/usr/bin/env no-such-shell\n")).value(),
              HasSubstr("not in PATH"));
  EXPECT_THAT(reason_to_refuse(write("#!\n")).value(), HasSubstr("no interpreter"));
}

TEST_F(ProgramCheck, RefusesAScriptThatInterpretsItself) {
  const std::string path = (folder_ / "program").string();
  EXPECT_THAT(reason_to_refuse(write("#!" + path + "\n")).value(), HasSubstr("too many nested"));
}

TEST(FindProgram, LooksInPathOnlyForPlainNames) {
  EXPECT_TRUE(find_program("sh").has_value());
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
  EXPECT_EQ(find_program("./no-such-program"), std::nullopt);
  EXPECT_EQ(find_program("no-such-program"), std::nullopt);
  EXPECT_EQ(find_program(""), std::nullopt);
}

}  // namespace
}  // namespace verbena::tool
