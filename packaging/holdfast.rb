# SPDX-License-Identifier: Apache-2.0
# For Homebrew on Linux: brew install --build-from-source ./packaging/holdfast.rb. Never built, because no Homebrew was
# at hand: Ruby has read it, and what it names is compared with the build (tests/tidy/check_recipes.py).
class Holdfast < Formula
  desc "Distributed locks over Redis, ZooKeeper, etcd, databases and one machine"
  homepage "https://holdfast.invalid"
  head "https://holdfast.invalid/holdfast.git", branch: "main" # where your copy is
  license "Apache-2.0"

  depends_on "meson" => :build
  depends_on "ninja" => :build
  depends_on "pkg-config" => :build
  depends_on "scdoc" => :build
  depends_on "hiredis"
  depends_on "libmicrohttpd"
  depends_on "libnghttp2"
  depends_on "libpq"
  depends_on "libuv"
  depends_on :linux
  depends_on "mariadb-connector-c"
  depends_on "ncurses"
  depends_on "openssl@3"
  depends_on "protobuf-c"

  def install
    system "meson", "setup", "output", "-Dtests=false", "-Dsqlite=disabled", *std_meson_args
    system "meson", "install", "-C", "output"
  end

  test do
    ENV["HOLDFAST_DIR"] = testpath/"locks"
    (testpath/"locks").mkpath
    chmod 0700, testpath/"locks"
    system bin/"holdfast", "run", "nightly", "--", "true"
  end
end
