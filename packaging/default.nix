# SPDX-License-Identifier: Apache-2.0
# For Nix: nix-build packaging. Never built, because no nixpkgs were at hand: Nix has read it, and what it names is
# compared with the build (tests/tidy/check_recipes.py). Features that no flag names are switched on there.
{ pkgs ? import <nixpkgs> { } }:

pkgs.stdenv.mkDerivation {
  pname = "holdfast";
  version = "0.1.0";
  src = pkgs.lib.cleanSource ../.;
  nativeBuildInputs = with pkgs; [ meson ninja pkg-config protobufc python3 scdoc ];
  buildInputs = with pkgs; [
    hiredis
    libmicrohttpd
    libmysqlclient
    libpq
    libuv
    ncurses
    nghttp2
    openssl
    protobufc
  ];
  # Nixpkgs' client of MySQL is MariaDB's connector, under this name.
  mesonFlags = [ "-Dtests=false" "-Dsqlite=disabled" "-Dengine_mysql=auto" "-Dengine_postgres=auto" ];
  doInstallCheck = true;
  installCheckPhase = "HOLDFAST_DIR=$(mktemp -d) $out/bin/holdfast run nightly -- true";
  meta = {
    description = "Distributed locks over Redis, ZooKeeper, etcd, databases and one machine";
    license = pkgs.lib.licenses.asl20;
    platforms = pkgs.lib.platforms.linux;
  };
}
