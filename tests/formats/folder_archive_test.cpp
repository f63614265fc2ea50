#include "lagom/formats/folder_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lagom/formats/zip.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"

namespace lagom::formats {
namespace {

TEST(FolderArchiveTest, AFolderComesBackFromItsArchive) {
  const testing::TemporaryFolder folder;
  write_file(folder.path() / "in/b/x.npz", std::string(5000, 'x'));
  write_file(folder.path() / "in/a.json", "{}");
  write_file(folder.path() / "in/empty", "");
  write_file(folder.path() / "in/.hidden", "no");
  write_file(folder.path() / "in/b/y.npz.part12", "no");

  EXPECT_EQ(pack_folder(folder.path() / "in", folder.path() / "p.zip"), 3u);
  EXPECT_EQ(unpack_folder(folder.path() / "p.zip", folder.path() / "out"), 3u);

  EXPECT_EQ(read_file(folder.path() / "out/b/x.npz"), std::string(5000, 'x'));
  EXPECT_EQ(read_file(folder.path() / "out/a.json"), "{}");
  EXPECT_EQ(read_file(folder.path() / "out/empty"), "");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "out/.hidden"));
  pack_folder(folder.path() / "out", folder.path() / "q.zip");
  EXPECT_EQ(read_file(folder.path() / "q.zip"), read_file(folder.path() / "p.zip"));
}

TEST(FolderArchiveTest, ANameThatLeadsOutIsRefusedBeforeAnythingIsWritten) {
  const testing::TemporaryFolder folder;
  for (const std::string name : {"../evil", "/tmp/evil", "a/../../evil"}) {
    ZipWriter writer(folder.path() / "evil.zip");
    writer.add("good", "1");
    writer.add(name, "2");
    writer.finish();
    EXPECT_THROW(unpack_folder(folder.path() / "evil.zip", folder.path() / "out"), FormatError);
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "out/good"));
  }
  EXPECT_THROW(pack_folder(folder.path() / "absent", folder.path() / "z.zip"), SystemError);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "z.zip"));
}

}  // namespace
}  // namespace lagom::formats
