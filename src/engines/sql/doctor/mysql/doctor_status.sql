SHOW STATUS WHERE Variable_name IN ('Ssl_cipher', 'Threads_connected', 'Slaves_connected',
  'wsrep_cluster_size', 'wsrep_local_state_comment', 'wsrep_cluster_status');
