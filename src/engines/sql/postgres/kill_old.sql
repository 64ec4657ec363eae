-- Sessions of this client but the asking one, as far as this user may see and end them.
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name = :session AND pid <> pg_backend_pid() AND usename = current_user;
