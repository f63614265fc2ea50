#include "lagom/xla/plugin.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "lagom/xla/client.h"
#include "lagom/xla/pjrt_abi.h"

namespace lagom::xla {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

template <typename Function>
std::string message_of(Function&& function) {
  try {
    function();
  } catch (const SystemError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// A function table made here: every function answers with `failure` (null means success).
struct FakeTable {
  size_t struct_size;
  void* extension_start = nullptr;
  abi::Version version{sizeof(abi::Version), nullptr, 0, 100};
  abi::AnyFunction functions[100] = {};

  static inline abi::Error* failure = nullptr;
  static abi::Error* answer(void*) { return failure; }
  static void message(void* args) {
    auto* message_args = static_cast<abi::ErrorMessageArgs*>(args);
    message_args->message = "the fake fails";
    message_args->message_size = std::strlen("the fake fails");
  }
  static void destroy(void*) { failure = nullptr; }
  static abi::Error* code(void* args) {
    static_cast<abi::ErrorGetCodeArgs*>(args)->code = 3;
    return nullptr;
  }

  explicit FakeTable(size_t num_functions)
      : struct_size(offsetof(FakeTable, functions) + num_functions * sizeof(void*)) {
    failure = nullptr;
    for (abi::AnyFunction& function : functions) {
      function = reinterpret_cast<abi::AnyFunction>(&answer);
    }
    functions[abi::kErrorDestroy] = reinterpret_cast<abi::AnyFunction>(&destroy);
    functions[abi::kErrorMessage] = reinterpret_cast<abi::AnyFunction>(&message);
    functions[abi::kErrorGetCode] = reinterpret_cast<abi::AnyFunction>(&code);
  }
  const abi::Api* api() const { return reinterpret_cast<const abi::Api*>(this); }
};

class FindPluginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("find_plugin_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      saved_.emplace_back(value ? value : "", value != nullptr);
      unsetenv(name);
    }
    setenv("LAGOM_CACHE", folder_.c_str(), 1);
  }
  void TearDown() override {
    for (size_t i = 0; i < saved_.size(); ++i) {
      if (saved_[i].second) {
        setenv(kNames[i], saved_[i].first.c_str(), 1);
      } else {
        unsetenv(kNames[i]);
      }
    }
    fs::remove_all(folder_);
  }
  fs::path make(const std::string& name) {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "not empty";
    return path;
  }

  static constexpr const char* kNames[] = {"LAGOM_PJRT_PLUGIN", "LAGOM_CACHE", "XDG_CACHE_HOME"};
  fs::path folder_;
  std::vector<std::pair<std::string, bool>> saved_;
};

TEST_F(FindPluginTest, ExplicitPathComesFirst) {
  const fs::path named = make("named.so");
  const fs::path variable = make("variable.so");
  setenv("LAGOM_PJRT_PLUGIN", variable.c_str(), 1);

  EXPECT_EQ(find_plugin(named), named);
  EXPECT_EQ(find_plugin(), variable);
}

TEST_F(FindPluginTest, CacheGivesTheDefaultThenTheNewest) {
  const fs::path older = make("plugins/a/libpjrt_cpu.so");
  const fs::path newer = make("plugins/b/deep/pjrt_c_api_cpu_plugin.so");
  make("plugins/b/deep/other.so");
  fs::last_write_time(older, fs::last_write_time(newer) - std::chrono::hours(1));
  EXPECT_EQ(find_plugin(), newer);

  const fs::path link = make("plugins/default");
  EXPECT_EQ(find_plugin(), link);
}

TEST_F(FindPluginTest, SaysHowToGetOneWhenThereIsNone) {
  EXPECT_THAT(message_of([] { find_plugin(); }), HasSubstr("./run setup"));
  EXPECT_THAT(message_of([] { find_plugin("/no/such/plugin.so"); }),
              ::testing::AllOf(HasSubstr("/no/such/plugin.so"), HasSubstr("./run setup")));
}

TEST_F(FindPluginTest, FileThatIsNoLibraryIsNamed) {
  const fs::path text = make("text.so");

  EXPECT_THAT(message_of([&] { Plugin::load(text); }),
              ::testing::AllOf(HasSubstr(text.string()), HasSubstr("not a loadable plugin")));
}

TEST(PluginTest, LibraryWithoutGetPjrtApiIsRefused) {
  Dl_info library{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&std::strlen), &library), 0);

  EXPECT_THAT(message_of([&] { Plugin::load(library.dli_fname); }), HasSubstr("no PJRT plugin"));
}

TEST(PluginTest, UnknownMajorVersionIsRefused) {
  FakeTable table(100);
  table.version.major_version = 1;
  table.version.minor_version = 2;

  EXPECT_THAT(message_of([&] { Plugin::from_api(table.api(), "fake"); }),
              HasSubstr("speaks PJRT version 1.2, expected 0.x"));
}

TEST(PluginTest, FunctionPastTheEndOfAnOldTableIsNamed) {
  const FakeTable table(50);
  const auto plugin = Plugin::from_api(table.api(), "old");
  abi::LoadedExecutableExecuteArgs args;

  EXPECT_FALSE(plugin->has(abi::kLoadedExecutableExecute));
  EXPECT_THAT(message_of([&] { plugin->call(abi::kLoadedExecutableExecute, args); }),
              HasSubstr("old: the plugin (PJRT 0.100) has no PJRT_LoadedExecutable_Execute"));
}

TEST(PluginTest, EmptySlotIsNamed) {
  FakeTable table(100);
  table.functions[abi::kClientCreate] = nullptr;
  const auto plugin = Plugin::from_api(table.api(), "fake");

  EXPECT_THAT(message_of([&] { Client client(plugin); }), HasSubstr("has no PJRT_Client_Create"));
}

TEST(PluginTest, ErrorCarriesCallCodeAndReason) {
  const FakeTable table(100);
  const auto plugin = Plugin::from_api(table.api(), "fake");
  int object = 0;
  FakeTable::failure = reinterpret_cast<abi::Error*>(&object);

  try {
    Client client(plugin);
    FAIL() << "nothing was thrown";
  } catch (const PjrtError& error) {
    EXPECT_STREQ(error.what(), "PJRT_Client_Create: INVALID_ARGUMENT: the fake fails");
    EXPECT_EQ(error.code(), 3);
    EXPECT_EQ(error.reason(), "the fake fails");
  }
  EXPECT_EQ(FakeTable::failure, nullptr) << "the error was not freed";
}

TEST(PluginTest, NoTableIsRefused) {
  EXPECT_THAT(message_of([] { Plugin::from_api(nullptr, "empty"); }),
              HasSubstr("no function table"));
}

}  // namespace
}  // namespace lagom::xla
