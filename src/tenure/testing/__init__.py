"""What users and this project test with. Nothing here is imported by the library itself."""
