#include "tools/doctor/command_line.h"

#include <CLI/CLI.hpp>

namespace verbena::tool {
namespace {

constexpr auto kDoctorExamples = R"(Examples:
  verbena doctor                                  this machine
  sudo verbena doctor                             the firewall's rules, too
  verbena doctor --listen                         on the other host, OTHER
  verbena doctor OTHER                            and the way to it, both ways
  verbena doctor --strict --json | jq '.findings[] | select(.verdict != "ok")'

HOST need not run anything: each RoCE device answers. With verbena doctor --listen, it also finds
out about NAT and whether packets of full size come through.

Each line is one check. A check that fails or warns says why, and which command mends it.

Exit status: 0; 1 if a check failed (with --strict: or warned); 2 if an option is wrong.)";

}  // namespace

CLI::App* add_doctor(CLI::App& app, DoctorOptions& options) {
  CLI::App* const doctor = app.add_subcommand(
      "doctor", "Find what is wrong with RDMA here or on the way to HOST, and what mends it");
  CLI::Option* const host =
      doctor->add_option("HOST", options.host, "Check the way to this host, too");
  doctor
      ->add_flag("--listen", options.listen,
                 "Answer verbena doctor of other hosts, until interrupted")
      ->excludes(host);
  doctor
      ->add_option("--port", options.port,
                   "The port of --listen: of rdma_cm, TCP and UDP, on both hosts the same")
      ->type_name("PORT")
      ->capture_default_str();
  doctor->add_flag("--strict", options.strict, "Exit with 1 for warnings, too");
  doctor->add_flag("--json", options.json, "Print JSON");
  doctor->add_flag("--probe", options.probe)->group("");
  doctor->add_option("--at", options.at)->group("");
  doctor->footer(kDoctorExamples);
  return doctor;
}

}  // namespace verbena::tool
