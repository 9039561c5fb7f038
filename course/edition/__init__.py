"""The student edition: written without references and solutions of days that are not released."""
