// Handlers belong to the process, so each test has a process of its own: in_child() runs its body
// in one.

#include "memory/fault_handler.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <thread>

#include "base/time.h"
#include "memory/guarded_copy.h"

namespace verbena::memory {
namespace {

#define CHECK_HERE(condition)                   \
  do {                                          \
    if (!(condition)) {                         \
      std::fprintf(stderr, "%s\n", #condition); \
      _exit(1);                                 \
    }                                           \
  } while (false)

/// The wait status of a process that runs `body`.
template <typename F>
int in_child(F&& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

Instant later() {
  static Instant when{std::chrono::hours{1}};
  return when += std::chrono::milliseconds{2};
}

bool caught() {
  check_fault_handlers(later());
  return faults_are_caught();
}

/// A page that nobody may touch.
std::uint8_t* no_access() {
  static void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return static_cast<std::uint8_t*>(page);
}

bool copy_faults() {
  std::uint8_t byte = 0;
  return !guarded_gather(&byte, no_access(), 1) && !guarded_scatter(no_access(), &byte, 1);
}

void touch() { *static_cast<volatile std::uint8_t*>(no_access()) = 1; }

volatile int times = 0;
sigjmp_buf way_out;
void* volatile seen_address = nullptr;

void leave(int, siginfo_t* info, void*) {
  times = times + 1;
  seen_address = info->si_addr;
  siglongjmp(way_out, 1);
}

struct sigaction with(void (*handler)(int, siginfo_t*, void*), int flags = 0) {
  struct sigaction a {};
  a.sa_sigaction = handler;
  a.sa_flags = flags | SA_SIGINFO;
  return a;
}

class FaultHandler : public testing::Test {
 protected:
  void SetUp() override {
    if (!kHasGuardedCopy) GTEST_SKIP() << "no copy loop for this machine";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer reports the faults that these tests make";
#endif
  }
};

TEST_F(FaultHandler, CatchesTheFaultsOfCopies) {
  EXPECT_EQ(in_child([] {
              CHECK_HERE(!caught());
              catch_faults();
              CHECK_HERE(caught());
              for (int i = 0; i < 100'000; ++i) CHECK_HERE(copy_faults());
            }),
            0);
}

TEST_F(FaultHandler, LeavesOtherFaultsToTheDefaultAction) {
  const int status = in_child([] {
    catch_faults();
    CHECK_HERE(copy_faults());
    touch();
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
}

TEST_F(FaultHandler, LeavesSentSignalsToTheDefaultAction) {
  for (const int signal : {SIGSEGV, SIGBUS}) {
    const int status = in_child([signal] {
      catch_faults();
      raise(signal);
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
  }
}

TEST_F(FaultHandler, CallsTheHandlerThatWasThereBefore) {
  EXPECT_EQ(in_child([] {
              const auto mine = with(leave);
              sigaction(SIGSEGV, &mine, nullptr);
              catch_faults();
              for (int i = 0; i < 1000; ++i) {
                if (sigsetjmp(way_out, 1) == 0) touch();
                CHECK_HERE(copy_faults());
              }
              CHECK_HERE(times == 1000 && seen_address == no_access());
            }),
            0);
}

TEST_F(FaultHandler, ShowsTheProgramItsOwnHandlersAlone) {
  EXPECT_EQ(in_child([] {
              catch_faults();
              struct sigaction old {};
              CHECK_HERE(handles_fault_signal(SIGSEGV) && handles_fault_signal(SIGBUS));
              CHECK_HERE(!handles_fault_signal(SIGUSR1));
              auto mine = with(leave, SA_RESTART);
              sigaddset(&mine.sa_mask, SIGUSR1);
              CHECK_HERE(set_program_action(SIGSEGV, &mine, &old) == 0);
              CHECK_HERE(old.sa_handler == SIG_DFL);
              CHECK_HERE(set_program_action(SIGSEGV, nullptr, &old) == 0);
              CHECK_HERE(old.sa_sigaction == leave && (old.sa_flags & SA_RESTART) != 0);
              CHECK_HERE(sigismember(&old.sa_mask, SIGUSR1) == 1);
              if (sigsetjmp(way_out, 1) == 0) touch();
              CHECK_HERE(times == 1 && caught() && copy_faults());
            }),
            0);
}

std::uint64_t bits_of(std::initializer_list<int> signals) {
  std::uint64_t bits = 0;
  for (const int signal : signals) bits |= std::uint64_t{1} << (signal - 1);
  return bits;
}

/// All of it, with the signals that libc hides.
std::uint64_t mask_now() {
  std::uint64_t mask = 0;
  CHECK_HERE(syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &mask, sizeof mask) == 0);
  return mask;
}

volatile std::uint64_t seen_mask = 0;
void look_at_mask_and_leave(int, siginfo_t*, void*) {
  seen_mask = mask_now();
  siglongjmp(way_out, 1);
}

TEST_F(FaultHandler, RunsTheProgramsHandlerWithItsMask) {
  EXPECT_EQ(in_child([] {
              catch_faults();
              const std::uint64_t before = bits_of({SIGUSR2, SIGRTMAX});
              CHECK_HERE(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, 8) == 0);
              auto mine = with(look_at_mask_and_leave);
              sigaddset(&mine.sa_mask, SIGUSR1);
              set_program_action(SIGSEGV, &mine, nullptr);
              if (sigsetjmp(way_out, 1) == 0) touch();
              CHECK_HERE(seen_mask == (before | bits_of({SIGUSR1, SIGSEGV})));
              CHECK_HERE(mask_now() == before);
              mine.sa_flags |= SA_NODEFER;
              set_program_action(SIGSEGV, &mine, nullptr);
              if (sigsetjmp(way_out, 1) == 0) touch();
              CHECK_HERE(seen_mask == (before | bits_of({SIGUSR1})));
              if (sigsetjmp(way_out, 0) == 0) touch();  // leaves the handler's mask behind
              CHECK_HERE(mask_now() == (before | bits_of({SIGUSR1})));
            }),
            0);
}

TEST_F(FaultHandler, RunsTheProgramsHandlerWithItsMaskForSentSignals) {
  EXPECT_EQ(in_child([] {
              catch_faults();
              auto mine = with(look_at_mask_and_leave, SA_NODEFER);
              sigaddset(&mine.sa_mask, SIGUSR1);
              set_program_action(SIGBUS, &mine, nullptr);
              const std::uint64_t before = mask_now();
              if (sigsetjmp(way_out, 1) == 0) raise(SIGBUS);
              CHECK_HERE(seen_mask == (before | bits_of({SIGUSR1})) && mask_now() == before);
            }),
            0);
}

void mend(int, siginfo_t*, void*) {
  times = times + 1;
  mprotect(no_access(), 4096, PROT_READ | PROT_WRITE);
}

volatile int alarms = 0;
void fault_at_alarm(int) {
  alarms = alarms + 1;
  touch();
  mprotect(no_access(), 4096, PROT_NONE);
}

TEST_F(FaultHandler, IsNotInterruptedByAHandlerThatFaultsOnItsOwn) {
  EXPECT_EQ(in_child([] {
              CHECK_HERE(no_access() != MAP_FAILED);
              const auto mine = with(mend);
              sigaction(SIGSEGV, &mine, nullptr);
              catch_faults();
              struct sigaction alarm {};
              alarm.sa_handler = fault_at_alarm;
              sigaction(SIGALRM, &alarm, nullptr);
              const itimerval often{{0, 50}, {0, 50}};
              setitimer(ITIMER_REAL, &often, nullptr);
              while (alarms < 2000) CHECK_HERE(copy_faults());
              const itimerval never{};
              setitimer(ITIMER_REAL, &never, nullptr);
              CHECK_HERE(times == alarms);
            }),
            0);
}

TEST_F(FaultHandler, CallsAHandlerThatWantsToBeCalledOnceOnce) {
  const int status = in_child([] {
    catch_faults();
    const auto mine = with(leave, static_cast<int>(SA_RESETHAND));
    set_program_action(SIGSEGV, &mine, nullptr);
    if (sigsetjmp(way_out, 1) == 0) touch();
    struct sigaction now {};
    set_program_action(SIGSEGV, nullptr, &now);
    CHECK_HERE(now.sa_handler == SIG_DFL && copy_faults());
    touch();
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
}

TEST_F(FaultHandler, IsNotTrustedWhenASystemCallHasReplacedIt) {
  EXPECT_EQ(in_child([] {
              catch_faults();
              CHECK_HERE(caught());
              struct sigaction before {};
              set_program_action(SIGSEGV, nullptr, &before);
              // As the kernel has it: handler, flags, restorer, mask.
              std::uint64_t raw[4] = {reinterpret_cast<std::uint64_t>(&leave), SA_SIGINFO, 0, 0};
              std::uint64_t ours[4]{};
              CHECK_HERE(syscall(SYS_rt_sigaction, SIGSEGV, raw, ours, 8) == 0);
              CHECK_HERE(!caught());
              struct sigaction seen {};
              set_program_action(SIGSEGV, nullptr, &seen);
              CHECK_HERE(seen.sa_sigaction == leave);
              CHECK_HERE(syscall(SYS_rt_sigaction, SIGSEGV, ours, nullptr, 8) == 0);
              CHECK_HERE(caught() && copy_faults());
            }),
            0);
}

TEST_F(FaultHandler, IsNotTrustedWhereTheSignalIsBlockedOrIgnored) {
  EXPECT_EQ(in_child([] {
              catch_faults();
              CHECK_HERE(caught());
              sigset_t fault;
              sigemptyset(&fault);
              sigaddset(&fault, SIGBUS);
              signal_mask_changed();
              CHECK_HERE(!faults_are_caught());  // at once
              pthread_sigmask(SIG_BLOCK, &fault, nullptr);
              CHECK_HERE(!caught());
              bool elsewhere = true;  // a thread inherits the mask
              std::thread{[&] { elsewhere = caught(); }}.join();
              CHECK_HERE(!elsewhere);
              pthread_sigmask(SIG_UNBLOCK, &fault, nullptr);
              CHECK_HERE(caught());
              struct sigaction ignore {};
              ignore.sa_handler = SIG_IGN;
              CHECK_HERE(set_program_action(SIGSEGV, &ignore, nullptr) == 0 && !caught());
              struct sigaction seen {};
              set_program_action(SIGSEGV, nullptr, &seen);
              CHECK_HERE(seen.sa_handler == SIG_IGN);
              ignore.sa_handler = SIG_DFL;
              set_program_action(SIGSEGV, &ignore, nullptr);
              CHECK_HERE(caught() && copy_faults());
            }),
            0);
}

TEST_F(FaultHandler, LooksAgainAfterAMillisecondAndNotBefore) {
  EXPECT_EQ(in_child([] {
              catch_faults();
              const Instant now = later();
              check_fault_handlers(now);
              CHECK_HERE(faults_are_caught());
              sigset_t fault;
              sigemptyset(&fault);
              sigaddset(&fault, SIGSEGV);
              sigprocmask(SIG_BLOCK, &fault, nullptr);
              check_fault_handlers(now + std::chrono::microseconds{999});
              CHECK_HERE(faults_are_caught());
              check_fault_handlers(now + std::chrono::milliseconds{1});
              CHECK_HERE(!faults_are_caught());
            }),
            0);
}

TEST_F(FaultHandler, IsInheritedByAChildButNotSharedWithOneOfVfork) {
  EXPECT_EQ(in_child([] {
              catch_faults();
              const int forked = in_child([] {
                keep_fault_handlers_after_fork();
                CHECK_HERE(handles_fault_signal(SIGSEGV) && caught() && copy_faults());
              });
              CHECK_HERE(forked == 0);
              const pid_t child = vfork();
              if (child == 0) {
                struct sigaction seen {};
                const auto mine = with(leave);
                const bool own = set_program_action(SIGSEGV, &mine, &seen) == 0 &&
                                 seen.sa_handler == SIG_DFL && !caught();
                _exit(own ? 0 : 1);
              }
              int status = -1;
              waitpid(child, &status, 0);
              CHECK_HERE(status == 0 && caught() && copy_faults());
              struct sigaction seen {};
              set_program_action(SIGSEGV, nullptr, &seen);
              CHECK_HERE(seen.sa_handler == SIG_DFL);
            }),
            0);
}

TEST_F(FaultHandler, ManyThreadsFaultAtOnceWhileHandlersChange) {
  EXPECT_EQ(in_child([] {
              catch_faults();
              std::jthread changes{[](const std::stop_token& stop) {
                const auto mine = with(leave);
                struct sigaction by_default {};
                while (!stop.stop_requested()) {
                  set_program_action(SIGSEGV, &mine, nullptr);
                  set_program_action(SIGSEGV, &by_default, nullptr);
                }
              }};
              std::jthread copies{[] {
                for (int i = 0; i < 20'000; ++i) CHECK_HERE(copy_faults());
              }};
              for (int i = 0; i < 20'000; ++i) CHECK_HERE(copy_faults());
              copies.join();
              CHECK_HERE(times == 0);
            }),
            0);
}

TEST_F(FaultHandler, IsNotTrustedInHandlersThatBlockTheSignal) {
  EXPECT_EQ(in_child([] {
              catch_faults();
              CHECK_HERE(caught());
              const auto mine = with([](int, siginfo_t*, void*) {
                times = faults_are_caught() || caught() ? 2 : 1;
                siglongjmp(way_out, 1);
              });
              set_program_action(SIGSEGV, &mine, nullptr);
              CHECK_HERE(caught());
              if (sigsetjmp(way_out, 1) == 0) touch();
              CHECK_HERE(times == 1 && caught());
              if (sigsetjmp(way_out, 0) == 0) touch();  // leaves the handler's mask behind
              CHECK_HERE(!faults_are_caught() && !caught());
            }),
            0);
}

TEST_F(FaultHandler, IsNotTrustedByAnyThreadOnceTheSignalIsIgnored) {
  EXPECT_EQ(in_child([] {
              catch_faults();
              std::atomic<int> step{0};
              bool before = false, after = true;
              std::thread other{[&] {
                before = caught();
                step = 1;
                step.notify_one();
                step.wait(1);
                after = faults_are_caught();  // without looking again
              }};
              step.wait(0);
              struct sigaction ignore {};
              ignore.sa_handler = SIG_IGN;
              CHECK_HERE(set_program_action(SIGBUS, &ignore, nullptr) == 0);
              step = 2;
              step.notify_one();
              other.join();
              CHECK_HERE(before && !after);
            }),
            0);
}

TEST_F(FaultHandler, KeepsWhatASentSignalSaysOfItsSender) {
  const pid_t child = fork();
  if (child == 0) {
    catch_faults();
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    sigqueue(getpid(), SIGSEGV, {.sival_int = 42});
    _exit(0);
  }
  int values[2]{}, status = 0;
  for (int& value : values) {  // on its way to our handler, then to the default action
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSEGV) << status;
    siginfo_t info{};
    ASSERT_EQ(ptrace(PTRACE_GETSIGINFO, child, nullptr, &info), 0);
    value = info.si_code == SI_QUEUE ? info.si_value.sival_int : -1;
    ptrace(PTRACE_CONT, child, nullptr, SIGSEGV);
  }
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
  EXPECT_EQ(values[0], 42);
  EXPECT_EQ(values[1], 42);
}

/// SIGSEGV is blocked in each thread of the program. One of ours sleeps for ever, after `work`.
template <typename F>
void block_beside_our_thread(bool sent_before, F&& work) {
  sigset_t fault;
  sigemptyset(&fault);
  sigaddset(&fault, SIGSEGV);
  catch_faults();
  sigprocmask(SIG_BLOCK, &fault, nullptr);
  if (sent_before) kill(getpid(), SIGSEGV);
  std::atomic<bool> ready = false;
  std::thread ours{[&] {
    catch_faults_of_own_thread();
    work();
    ready = true;
    ready.notify_one();
    pause();
  }};
  ready.wait(false);
  if (!sent_before) kill(getpid(), SIGSEGV);
  CHECK_HERE(sigwaitinfo(&fault, nullptr) == SIGSEGV);
  _exit(0);
}

TEST_F(FaultHandler, OfOurThreadsLeavesSentSignalsToTheProgramsThreads) {
  EXPECT_EQ(in_child([] {
              block_beside_our_thread(/*sent_before=*/false,
                                      [] { CHECK_HERE(caught() && copy_faults()); });
            }),
            0);
  EXPECT_EQ(in_child([] {
              block_beside_our_thread(/*sent_before=*/true, [] { CHECK_HERE(!caught()); });
            }),
            0);
}

/// This thread's calls of `number` fail with EPERM from now on.
void forbid(std::uint32_t number) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  CHECK_HERE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK_HERE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

TEST_F(FaultHandler, IsNotTrustedWhereASandboxHidesTheMask) {
  EXPECT_EQ(in_child([] {
              catch_faults();
              CHECK_HERE(caught());
              forbid(SYS_rt_sigprocmask);
              CHECK_HERE(!caught());
            }),
            0);
}

TEST_F(FaultHandler, IsNotChangedWhereASandboxForbidsIt) {
  EXPECT_EQ(in_child([] {
              catch_faults();
              const auto mine = with(leave);
              CHECK_HERE(set_program_action(SIGSEGV, &mine, nullptr) == 0);
              forbid(SYS_rt_sigaction);
              struct sigaction by_default {};
              CHECK_HERE(set_program_action(SIGSEGV, &by_default, nullptr) == -1 && errno == EPERM);
              CHECK_HERE(!caught());
              if (sigsetjmp(way_out, 1) == 0) touch();
              CHECK_HERE(times == 1);
            }),
            0);
}

}  // namespace
}  // namespace verbena::memory
