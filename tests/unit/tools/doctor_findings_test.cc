// What the checks conclude from facts that no test machine has.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/doctor/devices_check.h"
#include "tools/doctor/gpu_check.h"
#include "tools/doctor/host_check.h"
#include "tools/doctor/kernel_check.h"
#include "tools/doctor/limits_check.h"
#include "tools/doctor/print.h"
#include "tools/doctor/sockets.h"

namespace verbena::doctor {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json device(const std::string& name, const std::string& state, json gids) {
  return {{"name", name},
          {"verbena", name.starts_with("vb_")},
          {"ports", json::array({{{"port", 1},
                                  {"state", state},
                                  {"active_mtu", 1024},
                                  {"max_mtu", 4096},
                                  {"link", "Ethernet"},
                                  {"gids", std::move(gids)}}})}};
}

json gid(const std::string& address, const std::string& type, const std::string& problem = "") {
  json entry{{"index", 0}, {"type", type}, {"address", address}, {"interface", "eth0"}};
  if (!problem.empty()) entry["problem"] = problem;
  return entry;
}

const Finding& named(const Findings& all, const std::string& id) {
  const auto found = std::ranges::find(all, id, &Finding::id);
  EXPECT_NE(found, all.end()) << id;
  return *found;
}

TEST(DoctorDevices, HardwareThatSpeaksRoceV1Alone) {
  const auto found = judge_devices(
      json::array({device("mlx5_0", "active", json::array({gid("fe80::1", "RoCE v1")}))}));
  EXPECT_EQ(named(found, "gids").verdict, Verdict::warning);
  EXPECT_THAT(named(found, "gids").seen, HasSubstr("mlx5_0"));
  EXPECT_EQ(named(found, "devices").verdict, Verdict::ok);
}

TEST(DoctorDevices, APortThatIsDownBesideAnActiveOne) {
  const auto found = judge_devices(
      json::array({device("vb_lo", "active", json::array({gid("127.0.0.1", "RoCE v2")})),
                   device("vb_docker0", "down", json::array({gid("172.17.0.1", "RoCE v2")}))}));
  for (const Finding& f : found) EXPECT_EQ(f.verdict, Verdict::ok) << f.seen;
}

TEST(DoctorDevices, ThePortIsRxes) {
  const auto found = judge_devices(json::array(
      {device("vb_lo", "active",
              json::array({gid("127.0.0.1", "RoCE v2",
                               "UDP port 4791 is taken by the kernel's rxe (rxe0): only your own "
                               "programs on this host reach each other here.")}))}));
  EXPECT_EQ(named(found, "port-4791").verdict, Verdict::failure);
  EXPECT_THAT(named(found, "port-4791").mends,
              ElementsAre(Mend{"rdma link delete rxe0", true, "here"}));
}

TEST(DoctorDevices, AnAddressForTwoProcesses) {
  EXPECT_EQ(usable_address(json::array()), "");
  EXPECT_EQ(usable_address(
                json::array({device("mlx5_0", "active", json::array({gid("10.0.0.1", "RoCE v2")})),
                             device("vb_a", "down", json::array({gid("10.0.0.2", "RoCE v2")})),
                             device("vb_b", "active",
                                    json::array({gid("fe80::1", "RoCE v2"), gid("::1", "RoCE v2"),
                                                 gid("127.0.0.1", "RoCE v2")}))})),
            "127.0.0.1");
}

TEST(DoctorKernel, FilesOfDevices) {
  EXPECT_EQ(judge_modules({{}, {}, false, false}).verdict, Verdict::ok);
  EXPECT_EQ(judge_modules({{"rxe0"}, {"rdma_rxe"}, true, true}).verdict, Verdict::ok);
  EXPECT_THAT(judge_modules({{"rxe0"}, {"rdma_rxe"}, true, false}).mends,
              ElementsAre(Mend{"modprobe rdma_ucm", true, "here"}));
}

TEST(DoctorLimits, MoreThanTheHardLimitIsForRoot) {
  const rlimit small{65536, 65536};
  EXPECT_EQ(judge_memlock(small, {}).verdict, Verdict::ok);
  EXPECT_THAT(judge_memlock(small, {"mlx5_0"}).mends,
              ElementsAre(Mend{"prlimit --pid $$ --memlock=unlimited", true, "here"}));
  EXPECT_THAT(judge_memlock({65536, RLIM_INFINITY}, {"mlx5_0"}).mends,
              ElementsAre(Mend{"ulimit -S -l unlimited", false, "here"}));
  EXPECT_THAT(judge_open_files({200, 200}).mends,
              ElementsAre(Mend{"prlimit --pid $$ --nofile=4096", true, "here"}));
}

TEST(DoctorGpu, ADriverWithoutItsLibrary) {
  EXPECT_EQ(judge_gpus({}, false).verdict, Verdict::ok);
  EXPECT_EQ(
      judge_gpus({.driver = true, .library = false, .names = {}, .problem = ""}, false).verdict,
      Verdict::warning);
  EXPECT_EQ(
      judge_gpus({.driver = true, .library = true, .names = {"H200"}, .problem = ""}, true).verdict,
      Verdict::ok);
}

WayToHost way_with(Fate fate) {
  WayToHost way;
  way.host = "there";
  way.address = "10.0.0.2";
  way.local = "10.0.0.1";
  way.interface = "eth0";
  way.roce_port = fate;
  return way;
}

TEST(DoctorHost, IcrcErrorsWithoutAnotherAddressAreNatToo) {
  WayToHost way = way_with(Fate::nothing);
  way.before.news = PeerNews{"10.0.0.1", 3, 10};
  way.after.news = PeerNews{"10.0.0.1", 5, 10};
  EXPECT_EQ(judge_port(way).front().id, "nat");
  way.after.news->icrc_errors = 3;
  EXPECT_THAT(judge_port(way).front().seen, HasSubstr("vanish"));
}

TEST(DoctorHost, ASilentHostMayBeDown) {
  EXPECT_THAT(judge_port(way_with(Fate::nothing)).front().why, HasSubstr("or the host is down"));
}

TEST(DoctorHost, PathsThatCantBeMeasuredAreNoFault) {
  WayToHost way = way_with(Fate::nothing);
  EXPECT_EQ(judge_path(way).verdict, Verdict::ok);
  way.path = {{1088, Fate::nothing}, {576, Fate::nothing}};
  EXPECT_EQ(judge_path(way).verdict, Verdict::ok);
  way.path = {{1088, Fate::nothing}, {576, Fate::refused}};
  EXPECT_THAT(judge_path(way).mends,
              ElementsAre(Mend{"ip link set dev eth0 mtu 576", true, "here"}));
}

TEST(DoctorHost, SizesToTry) {
  EXPECT_THAT(packet_sizes(1024), ElementsAre(1108, 596, 340));
  EXPECT_THAT(packet_sizes(4096), ElementsAre(4180, 2132, 1500, 1108, 596, 340));
}

TEST(DoctorHost, WhatIcmpSays) {
  EXPECT_EQ(fate_of(ECONNREFUSED, IcmpAnswer{3, 3}, true), Fate::refused);
  EXPECT_EQ(fate_of(EMSGSIZE, IcmpAnswer{3, 4}, true), Fate::too_big);
  EXPECT_EQ(fate_of(EHOSTUNREACH, IcmpAnswer{3, 13}, true), Fate::prohibited);
  EXPECT_EQ(fate_of(EHOSTUNREACH, IcmpAnswer{3, 1}, true), Fate::no_host);
  EXPECT_EQ(fate_of(ECONNREFUSED, IcmpAnswer{1, 4}, false), Fate::refused);
  EXPECT_EQ(fate_of(EACCES, IcmpAnswer{1, 1}, false), Fate::prohibited);
  EXPECT_EQ(fate_of(EMSGSIZE, IcmpAnswer{2, 0}, false), Fate::too_big);
  EXPECT_EQ(fate_of(EPERM, std::nullopt, true), Fate::held_back);
}

TEST(DoctorHost, NewsOfAListener) {
  const auto news =
      peer_news_in(R"({"verbena_doctor":1,"you":"10.0.0.1","icrc_errors":2,"frames_received":7})");
  ASSERT_TRUE(news);
  EXPECT_EQ(news->you, "10.0.0.1");
  EXPECT_EQ(news->icrc_errors, 2u);
  for (const char* const other :
       {"", "SSH-2.0-OpenSSH", "{}", R"({"verbena_doctor":1})",
        R"({"verbena_doctor":1,"you":7,"icrc_errors":"x"})", "[1]", R"({"verbena_doctor":"x"})",
        "{\"verbena_doctor\":1,\"you\":\"\\u001b[2J\",\"icrc_errors\":0,"
        "\"frames_received\":0}"}) {
    EXPECT_FALSE(peer_news_in(other)) << other;
  }
}

TEST(DoctorPrint, JsonOfNamesThatAreNoText) {
  const auto text = as_json({failure("port-4791", "taken by \xff", "why", {{"kill 1"}})}, "");
  const json report = json::parse(text);
  EXPECT_EQ(report.at("failures"), 1);
  EXPECT_TRUE(report.at("host").is_null());
  EXPECT_EQ(report.at("findings").at(0).at("mend").at(0).at("command"), "kill 1");
}

TEST(DoctorPrint, WordsInBothAlphabets) {
  const Finding f = warning("mtu", "small", "slow", {{"ip link", true, "HOST"}});
  EXPECT_THAT(as_text(f, false), HasSubstr("mend it on HOST as root: ip link\n"));
  EXPECT_THAT(as_text(fine("mtu", "x"), true), HasSubstr("✓"));
  EXPECT_THAT(as_text(fine("mtu", "x"), false), testing::StartsWith("ok mtu"));
}

}  // namespace
}  // namespace verbena::doctor
