"""How people have lost text to file memories, each as a case that every backend has to stand."""
